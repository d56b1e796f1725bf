#include "engine/branch_and_bound.h"

#include <gtest/gtest.h>
#include <tbb/task_arena.h>

#include "engine/price_ascent.h"
#include "tests/engine/random_network.h"

namespace autopar::engine {
namespace {

using testing::exhaustive_optimum;
using testing::random_network;
using testing::Shape;

/// Blocks that are too large as soon as they have a row: every part is split.
constexpr BlockOptions kNoElimination{1, 1, 0};

Shape tight(std::uint32_t seed) {
  Shape shape;
  shape.num_variables = 8;
  shape.num_times = 6;
  shape.percent_limit = 20 + 10 * static_cast<int>(seed % 4);
  return shape;
}

std::optional<Part> whole(const CostNetwork& network) { return make_part(network, all_values(network), nullptr); }

/// Searches to the end. `bounds` receives the bound after each round.
BranchAndBound searched(const CostNetwork& network, Cost cutoff, const BlockOptions& options,
                        std::vector<Cost>* bounds = nullptr) {
  BranchAndBound tree(network, *whole(network), options);
  while (!tree.is_done()) {
    tree.search(cutoff, {});
    if (bounds) bounds->push_back(tree.bound());
  }
  return tree;
}

TEST(BranchAndBoundTest, finds_the_optimum_with_and_without_elimination) {
  int num_solved = 0;
  std::int64_t num_nodes = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    const CostNetwork network = random_network(seed, tight(seed));
    const Cost optimum = exhaustive_optimum(network);
    if (!whole(network)) {
      EXPECT_EQ(optimum, kForbidden) << "seed " << seed;
      continue;
    }
    for (const BlockOptions& options : {kNoElimination, BlockOptions{1000, 10'000, 0}}) {
      const BranchAndBound tree = searched(network, kForbidden, options);
      ASSERT_EQ(tree.best_cost(), optimum) << "seed " << seed;
      if (optimum >= kForbidden) continue;
      EXPECT_EQ(evaluate(network, tree.best()), optimum) << "seed " << seed;
      num_nodes += tree.num_nodes();
      ++num_solved;
    }
  }
  EXPECT_GT(num_solved, 100);
  EXPECT_GT(num_nodes, num_solved + 20);
}

TEST(BranchAndBoundTest, what_is_nearest_to_the_bound_need_not_cost_the_least) {
  // Usage is priced: within a margin above the root's bound there may be solutions that cost more than one outside.
  CostNetwork network;
  network.domains = {{{0, 7}, {{19, 0}}, {}}, {{1, 4}, {{0, 8}}, {}}};
  network.projections = {{0, 1}};
  network.tables = {{2, 2, {8, 0, 2, 0}}};
  network.variables = {{0, 0, {{0, 1}}}, {1, 0, {{0, 1}}}};
  network.edges = {{0, 1, 0, 0, 0}};
  network.usage_limit = 19;
  for (Cost cutoff = 10; cutoff < 30; ++cutoff) {
    Part root = *whole(network);
    PriceAscent ascent(*root.dual, std::vector<double>());
    while (!ascent.is_done()) ascent.step(cutoff);
    root.dual->restore(ascent.best());
    BranchAndBound tree(network, std::move(root), {1000, 10'000, 0});
    while (!tree.is_done()) tree.search(cutoff, {});
    EXPECT_EQ(tree.best_cost(), 9) << "cutoff " << cutoff;
  }
}

TEST(BranchAndBoundTest, nothing_below_the_cutoff_is_found_if_there_is_nothing) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const CostNetwork network = random_network(seed, tight(3));
    const Cost optimum = exhaustive_optimum(network);
    if (optimum >= kForbidden) continue;
    EXPECT_GE(searched(network, optimum, kNoElimination).best_cost(), optimum) << "seed " << seed;
    EXPECT_EQ(searched(network, optimum + 1, kNoElimination).best_cost(), optimum) << "seed " << seed;
  }
}

TEST(BranchAndBoundTest, bounds_hold_and_do_not_fall) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const CostNetwork network = random_network(seed, tight(3));
    const Cost optimum = exhaustive_optimum(network);
    if (optimum >= kForbidden) continue;
    std::vector<Cost> bounds;
    searched(network, optimum + 1, kNoElimination, &bounds);
    EXPECT_TRUE(std::ranges::is_sorted(bounds)) << "seed " << seed;
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) EXPECT_LE(bounds[i], optimum) << "seed " << seed;
  }
}

TEST(BranchAndBoundTest, the_number_of_threads_changes_nothing) {
  Shape shape = tight(1);
  shape.num_variables = 40;
  shape.percent_edges = 8;
  shape.percent_forbidden = 0;
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const CostNetwork network = random_network(seed, shape);
    if (!whole(network)) continue;
    std::vector<std::pair<Assignment, std::int64_t>> found;
    for (int threads : {1, 4}) {
      tbb::task_arena(threads).execute([&] {
        const BranchAndBound tree = searched(network, kForbidden, kNoElimination);
        found.emplace_back(tree.best(), tree.num_nodes());
      });
    }
    EXPECT_EQ(found[0], found[1]) << "seed " << seed;
  }
}

TEST(BranchAndBoundTest, nothing_is_lost_at_a_deadline) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const CostNetwork network = random_network(seed, tight(3));
    const Cost optimum = exhaustive_optimum(network);
    if (optimum >= kForbidden) continue;
    BranchAndBound tree(network, *whole(network), kNoElimination);
    const Deadline passed = Deadline::after(std::chrono::steady_clock::now(), -1);
    for (int round = 0; !tree.is_done(); ++round) tree.search(kForbidden, round % 2 == 0 ? passed : Deadline{});
    EXPECT_EQ(tree.best_cost(), optimum) << "seed " << seed;
  }
}

}  // namespace
}  // namespace autopar::engine
