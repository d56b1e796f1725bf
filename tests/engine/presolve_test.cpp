#include "engine/presolve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "tests/engine/random_network.h"

namespace autopar::engine {
namespace {

using testing::exhaustive_optimum;
using testing::random_network;
using testing::Shape;

/// A random network with usage, in which some variables follow from the one before.
CostNetwork network_with_followers(std::uint32_t seed) {
  Shape shape;
  shape.num_variables = 8;
  shape.percent_edges = 25;
  shape.num_times = 5;
  shape.percent_limit = 40;
  CostNetwork network = random_network(seed, shape);
  std::mt19937 random(seed);
  for (std::int32_t v = 1; v < network.num_variables(); ++v) {
    if (random() % 2 == 0) continue;
    Table table{network.domain(v - 1).size(), network.domain(v).size(), {}};
    for (std::int32_t x = 0; x < table.rows; ++x) {
      const auto follows = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(table.cols));
      for (std::int32_t y = 0; y < table.cols; ++y) table.costs.push_back(y == follows ? x : kForbidden);
    }
    const auto identity = [&network](std::int32_t size) {
      Projection projection(static_cast<std::size_t>(size));
      std::iota(projection.begin(), projection.end(), 0);
      network.projections.push_back(std::move(projection));
      return static_cast<std::int32_t>(network.projections.size()) - 1;
    };
    const std::int32_t rows = identity(table.rows);
    const std::int32_t cols = identity(table.cols);
    network.edges.push_back({v - 1, v, static_cast<std::int32_t>(network.tables.size()), rows, cols});
    network.tables.push_back(std::move(table));
  }
  return network;
}

/// The reduced network's best assignment is, restored, a best one of the whole.
void expect_same_optimum(const CostNetwork& network, const PresolveSteps& steps, PresolveCounts& total) {
  const Presolve presolve(network, steps);
  const Cost optimum = exhaustive_optimum(network);
  if (presolve.infeasible()) {
    ASSERT_EQ(optimum, kForbidden);
    return;
  }
  const CostNetwork& reduced = presolve.reduced();
  Assignment best;
  Assignment assignment(reduced.variables.size(), 0);
  Cost least = kForbidden;
  for (bool more = true; more;) {
    if (const Cost cost = evaluate(reduced, assignment); cost < least) {
      least = cost;
      best = assignment;
    }
    std::size_t v = 0;
    while (v < assignment.size() && ++assignment[v] == reduced.domain(static_cast<std::int32_t>(v)).size()) {
      assignment[v++] = 0;
    }
    more = v < assignment.size();
  }
  ASSERT_EQ(add(least, presolve.constant()), optimum);
  if (optimum < kForbidden) {
    ASSERT_EQ(evaluate(network, presolve.restore(best)), optimum);
    ASSERT_EQ(presolve.reduce(presolve.restore(best)), best);
  }
  total.dead_values += presolve.counts().dead_values;
  total.dominated_values += presolve.counts().dominated_values;
  total.merged_edges += presolve.counts().merged_edges;
  total.folded_edges += presolve.counts().folded_edges;
  total.contracted += presolve.counts().contracted;
  total.eliminated += presolve.counts().eliminated;
}

TEST(PresolveTest, every_set_of_steps_keeps_the_optimum) {
  for (unsigned which = 0; which < 32; ++which) {
    const PresolveSteps steps{(which & 1U) > 0, (which & 2U) > 0, (which & 4U) > 0, (which & 8U) > 0,
                              (which & 16U) > 0};
    PresolveCounts total;
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
      SCOPED_TRACE(::testing::Message() << "steps " << which << ", seed " << seed);
      expect_same_optimum(network_with_followers(seed), steps, total);
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GT(total.dead_values, 0);
    EXPECT_GT(total.merged_edges, 0);
    EXPECT_EQ(total.dominated_values > 0, steps.dominate);
    EXPECT_EQ(total.eliminated > 0, steps.eliminate);
    EXPECT_EQ(total.contracted > 0, steps.contract);
    EXPECT_EQ(total.folded_edges > 0, steps.fold);
  }
}

TEST(PresolveTest, stopped_halfway_it_keeps_the_optimum) {
  for (const std::int64_t max_work : {0, 20'000, 60'000}) {
    PresolveSteps steps;
    steps.max_work = max_work;
    PresolveCounts total;
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
      SCOPED_TRACE(::testing::Message() << "work " << max_work << ", seed " << seed);
      expect_same_optimum(network_with_followers(seed), steps, total);
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(total.contracted > 0, max_work > 0);
  }
}

TEST(PresolveTest, tables_that_stay_are_shared_with_the_original) {
  const CostNetwork network = network_with_followers(1);
  const Presolve presolve(network, {false, false, false, false, false});
  const Tables& reduced = presolve.reduced().tables;
  std::set<const Table*> original;
  for (std::size_t t = 0; t < network.tables.size(); ++t) original.insert(&network.tables[t]);
  std::size_t num_shared = 0;
  for (std::size_t t = 0; t < reduced.size(); ++t) num_shared += original.count(&reduced[t]);
  EXPECT_GT(num_shared, 0U);
}

TEST(PresolveTest, a_part_of_a_network_is_reduced_in_terms_of_the_whole) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const CostNetwork network = network_with_followers(seed);
    LiveValues live = all_values(network);
    for (std::size_t v = 0; v < live.size(); v += 2) {
      if (live[v].size() > 1) live[v].erase(live[v].begin());
    }
    const Presolve presolve(network, live);
    if (presolve.infeasible()) continue;
    const Assignment restored = presolve.restore(Assignment(presolve.reduced().variables.size(), 0));
    for (std::size_t v = 0; v < live.size(); ++v) {
      ASSERT_TRUE(std::binary_search(live[v].begin(), live[v].end(), restored[v])) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace autopar::engine
