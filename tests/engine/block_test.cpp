#include "engine/block.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/engine/random_network.h"

namespace autopar::engine {
namespace {

using testing::random_network;
using testing::Shape;

constexpr std::int32_t kNumKept = 2;

// The network as a block that keeps its first variables, whose own costs count for cutting only.
Block make_block(const CostNetwork& network, Cost gap) {
  Block block;
  block.gap = gap;
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    block.variables.push_back({network.domain(v).costs, {}, {}, network.domain(v).levels, v < kNumKept});
  }
  for (const Edge& edge : network.edges) {
    Block::Edge made{edge.u, edge.v, {}};
    for (std::int32_t row : network.projections[static_cast<std::size_t>(edge.project_u)]) {
      for (std::int32_t col : network.projections[static_cast<std::size_t>(edge.project_v)]) {
        made.costs.push_back(network.tables[static_cast<std::size_t>(edge.table)].at(row, col));
      }
    }
    block.edges.push_back(std::move(made));
  }
  return block;
}

Cost kept_cost(const CostNetwork& network, const Assignment& assignment) {
  Cost total = 0;
  for (std::int32_t v = 0; v < kNumKept; ++v) {
    total += network.domain(v).costs[static_cast<std::size_t>(assignment[static_cast<std::size_t>(v)])];
  }
  return total;
}

// Least cost per values of the kept variables, by trying everything.
std::map<std::vector<std::int32_t>, Cost> exhaustive(const CostNetwork& network, Cost gap) {
  std::map<std::vector<std::int32_t>, Cost> least;
  Assignment assignment(network.variables.size(), 0);
  while (true) {
    const Cost cost = evaluate(network, assignment);
    if (cost <= gap) {
      const auto [entry, is_new] = least.try_emplace({assignment.begin(), assignment.begin() + kNumKept}, cost);
      if (!is_new) entry->second = std::min(entry->second, cost);
    }
    std::size_t v = 0;
    while (v < assignment.size() && ++assignment[v] == network.domain(static_cast<std::int32_t>(v)).size()) {
      assignment[v++] = 0;
    }
    if (v == assignment.size()) return least;
  }
}

// Every tuple of kept values within the gap, no other, each with its least cost, and values behind it that cost that.
void expect_exact(const CostNetwork& network, Cost gap, const BlockOptions& options, std::uint32_t seed) {
  const Block block = make_block(network, gap);
  const BlockResult result = search(block, options, {});
  ASSERT_EQ(result.outcome, BlockResult::Outcome::kDone) << "seed " << seed;
  const auto expected = exhaustive(network, gap);
  ASSERT_EQ(result.relation->rows.size(), expected.size()) << "seed " << seed;
  for (const Relation::Row& row : result.relation->rows) {
    Assignment kept;
    for (const Relation::Field& field : result.relation->scope) kept.push_back(field.value(row.key));
    const auto found = expected.find(kept);
    ASSERT_NE(found, expected.end()) << "seed " << seed;
    ASSERT_EQ(row.excess + kept_cost(network, kept), found->second) << "seed " << seed;
    Block decided = block;
    decided.gap = row.excess;
    for (std::size_t v = 0; v < kept.size(); ++v) {
      std::vector<Cost>& costs = decided.variables[v].costs;
      costs.assign(costs.size(), kForbidden);
      costs[static_cast<std::size_t>(kept[v])] = 0;
    }
    const Assignment values = find_values(decided, row.excess, {}, options, {});
    ASSERT_EQ(values.size(), network.variables.size()) << "seed " << seed;
    ASSERT_EQ(evaluate(network, values), found->second) << "seed " << seed;
  }
}

TEST(BlockTest, relations_equal_exhaustive_search) {
  Shape shape;
  shape.max_domain = 3;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    const CostNetwork network = random_network(seed, shape);
    const Cost optimum = testing::exhaustive_optimum(network);
    if (optimum >= kForbidden) continue;
    for (Cost gap : {optimum - 1, optimum, optimum + 7, optimum + 40}) expect_exact(network, gap, {}, seed);
  }
}

TEST(BlockTest, branching_with_tightened_bounds_changes_nothing) {
  Shape shape;
  shape.max_domain = 4;
  shape.percent_edges = 75;
  BlockOptions small;
  small.max_rows = 10;
  small.max_work = 120;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const CostNetwork network = random_network(seed, shape);
    const Cost optimum = testing::exhaustive_optimum(network);
    if (optimum >= kForbidden) continue;
    for (Cost gap : {optimum, optimum + 12}) expect_exact(network, gap, small, seed);
  }
}

TEST(DeadlineTest, what_is_left_of_one_that_has_passed_is_not_taken_for_no_limit) {
  EXPECT_EQ(Deadline{}.seconds_left(), 0);
  const auto now = std::chrono::steady_clock::now();
  EXPECT_GT(Deadline::after(now, -5).seconds_left(), 0);
  EXPECT_LT(Deadline::after(now, -5).seconds_left(), 0.1);
  EXPECT_GT(Deadline::after(now, 1000).seconds_left(), 900);
}

}  // namespace
}  // namespace autopar::engine
