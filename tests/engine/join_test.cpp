#include "engine/join.h"

#include <gtest/gtest.h>

#include "engine/bound.h"
#include "engine/presolve.h"
#include "tests/engine/random_network.h"

namespace autopar::engine {
namespace {

using testing::exhaustive_optimum;
using testing::random_assignment;
using testing::random_network;
using testing::Shape;

Join all_pairs(const CostNetwork& network, std::int32_t u, std::int32_t v) {
  Join join{u, v, {}};
  for (std::int32_t x = 0; x < network.domain(u).size(); ++x) {
    for (std::int32_t y = 0; y < network.domain(v).size(); ++y) join.values.push_back({x, y});
  }
  return join;
}

TEST(JoinTest, joined_assignments_cost_the_same) {
  Shape shape;
  shape.num_times = 6;
  int num_allowed = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const CostNetwork network = random_network(seed, shape);
    const std::vector<Join> joins{all_pairs(network, 4, 1), all_pairs(network, 0, 6)};
    const CostNetwork joined = with_joins(network, joins);
    std::mt19937 random(seed);
    for (int i = 0; i < 50; ++i) {
      const Assignment assignment = random_assignment(network, random);
      const Assignment reduced = reduce_joined(joins, assignment);
      EXPECT_EQ(restore_joined(joins, reduced), assignment);
      const Cost cost = evaluate(network, assignment);
      EXPECT_EQ(evaluate(joined, reduced), cost);
      num_allowed += cost < kForbidden ? 1 : 0;
    }
    EXPECT_EQ(exhaustive_optimum(joined), exhaustive_optimum(network)) << "seed " << seed;
  }
  EXPECT_GT(num_allowed, 200);
}

TEST(JoinTest, a_pair_that_is_gone_has_no_value) {
  const CostNetwork network = random_network(3, {});
  Join join = all_pairs(network, 0, 1);
  const std::array<std::int32_t, 2> gone = join.values.front();
  join.values.erase(join.values.begin());
  const std::vector<Join> joins{join};
  Assignment assignment(network.variables.size(), 0);
  assignment[0] = gone[0];
  assignment[1] = gone[1];
  EXPECT_EQ(reduce_joined(joins, assignment)[0], -1);
}

/// Variables of two values, neighbours in a circle; equal neighbours cost 10.
CostNetwork circle(int size) {
  CostNetwork network;
  network.domains = {{{0, 0}, {}, {}}};
  network.projections = {{0, 1}};
  network.tables = {{2, 2, {10, 0, 0, 10}}};
  network.variables.resize(static_cast<std::size_t>(size), {0, 0, {}});
  for (int v = 0; v < size; ++v) network.edges.push_back({v, (v + 1) % size, 0, 0, 0});
  return network;
}

TEST(JoinTest, a_cycle_that_cannot_agree_is_joined_and_its_cost_is_in_the_bound) {
  const CostNetwork network = circle(3);
  const Core core(network, all_values(network));
  Dual dual(core);
  converge(dual, 100, 1000);
  EXPECT_LT(dual.bound(), 10);
  const std::vector<Join> joins = choose_joins(dual, 20);
  ASSERT_EQ(joins.size(), 1U);
  // Presolve makes one edge of the two to the third variable.
  const CostNetwork joined = with_joins(network, joins);
  const Presolve presolve(joined, {false, false, false, false, false});
  ASSERT_EQ(presolve.reduced().edges.size(), 1U);
  const Core joined_core(presolve.reduced(), all_values(presolve.reduced()));
  Dual better(joined_core);
  converge(better, 100, 1000);
  EXPECT_EQ(better.bound() + presolve.constant(), 10);
}

TEST(JoinTest, joins_for_elimination_raise_the_bound_and_keep_the_optimum) {
  // Petersen's graph has three neighbours everywhere and no triangles.
  CostNetwork network = circle(5);
  network.variables.resize(10, {0, 0, {}});
  for (int v = 0; v < 5; ++v) {
    network.edges.push_back({v, v + 5, 0, 0, 0});
    network.edges.push_back({v + 5, 5 + (v + 2) % 5, 0, 0, 0});
  }
  const Core core(network, all_values(network));
  Dual dual(core);
  converge(dual, 100, 1000);
  EXPECT_LT(dual.bound(), 10);
  EXPECT_TRUE(choose_joins(dual, 100).empty());
  const Cost optimum = exhaustive_optimum(network);
  const std::vector<Join> joins = choose_joins_for_elimination(dual, optimum - dual.bound());
  ASSERT_FALSE(joins.empty());
  const Presolve presolve(with_joins(network, joins));
  const CostNetwork& reduced = presolve.reduced();
  EXPECT_LT(reduced.variables.size(), 10 - joins.size());
  EXPECT_EQ(exhaustive_optimum(reduced) + presolve.constant(), optimum);
  const Core joined_core(reduced, all_values(reduced));
  Dual better(joined_core);
  converge(better, 100, 1000);
  EXPECT_GT(better.bound() + presolve.constant(), dual.bound());
}

TEST(JoinTest, cycles_that_agree_are_left_alone) {
  CostNetwork network = circle(3);
  network.tables = {{2, 2, {0, 10, 10, 0}}};
  const Core core(network, all_values(network));
  Dual dual(core);
  converge(dual, 100, 1000);
  EXPECT_TRUE(choose_joins(dual, 20).empty());
}

}  // namespace
}  // namespace autopar::engine
