#include "engine/anytime.h"

#include <gtest/gtest.h>

#include "engine/comm.h"
#include "tests/engine/random_network.h"

namespace autopar::engine {
namespace {

using testing::draw_between;
using testing::exhaustive_optimum;
using testing::random_network;
using testing::Shape;

Solution solved(const CostNetwork& network, int threads, bool is_deterministic) {
  AnytimeOptions options;
  options.search.threads = threads;
  options.search.time_limit_s = is_deterministic ? 0.003 : 10;
  options.is_deterministic = is_deterministic;
  Comm comm;
  return solve_anytime(network, options, comm);
}

TEST(AnytimeTest, small_networks_are_solved_to_the_optimum) {
  Shape shape;
  shape.num_times = 6;
  int num_infeasible = 0;
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    shape.percent_limit = 20 + 10 * static_cast<int>(seed % 4);
    const CostNetwork network = random_network(seed, shape);
    const Cost optimum = exhaustive_optimum(network);
    const Solution solution = solved(network, 1 + static_cast<int>(seed % 2), false);
    ASSERT_EQ(solution.cost, optimum) << "seed " << seed;
    if (optimum >= kForbidden) {
      ASSERT_EQ(solution.status, Status::kInfeasible) << "seed " << seed;
      ++num_infeasible;
      continue;
    }
    ASSERT_EQ(solution.status, Status::kOptimal) << "seed " << seed;
    ASSERT_EQ(solution.bound, optimum) << "seed " << seed;
    ASSERT_EQ(evaluate(network, solution.assignment), optimum) << "seed " << seed;
  }
  EXPECT_GT(num_infeasible, 5);
  EXPECT_LT(num_infeasible, 80);
}

TEST(AnytimeTest, a_bound_above_all_largest_costs_proves_that_nothing_fits) {
  Shape shape;
  shape.num_times = 6;
  int num_proven = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    CostNetwork network = random_network(seed, shape);
    network.usage_limit /= 2;
    const bool is_infeasible = exhaustive_optimum(network) >= kForbidden;
    for (const bool is_deterministic : {false, true}) {
      AnytimeOptions options;
      options.search.threads = 1;
      options.search.time_limit_s = 5;
      options.presolve.usage = false;
      options.is_deterministic = is_deterministic;
      Comm comm;
      EXPECT_EQ(solve_anytime(network, options, comm).status, is_infeasible ? Status::kInfeasible : Status::kOptimal)
          << "seed " << seed;
    }
    num_proven += is_infeasible ? 1 : 0;
  }
  EXPECT_GT(num_proven, 5);
  EXPECT_LT(num_proven, 40);
}

/// Each variable has an edge to the next, of costs that are drawn.
CostNetwork chain(int count) {
  std::mt19937 random(7);
  CostNetwork network;
  network.projections = {{0, 1, 2}};
  for (int v = 0; v < count; ++v) {
    const auto costs = [&random](int size) {
      std::vector<Cost> drawn;
      for (int i = 0; i < size; ++i) drawn.push_back(draw_between(random, 0, 999));
      return drawn;
    };
    network.domains.push_back({costs(3), {}, {}});
    network.variables.push_back({v, 0, {}});
    if (v > 0) network.edges.push_back({v - 1, v, v - 1, 0, 0});
    network.tables.push_back(Table{3, 3, costs(9)});
  }
  return network;
}

TEST(AnytimeTest, a_limit_that_ends_presolve_leaves_time_for_a_solution) {
  const CostNetwork network = chain(20'000);
  const Solution cut_short = solved(network, 1, true);
  EXPECT_GT(cut_short.stats.variables_after_presolve, 10'000);
  EXPECT_EQ(evaluate(network, cut_short.assignment), cut_short.cost);
  const Solution whole = solved(network, 1, false);
  EXPECT_EQ(whole.stats.variables_after_presolve, 0);
  EXPECT_EQ(whole.status, Status::kOptimal);
  EXPECT_LE(cut_short.bound, whole.cost);
  EXPECT_GE(cut_short.cost, whole.cost);
}

TEST(AnytimeTest, time_that_was_spent_before_counts) {
  AnytimeOptions options;
  options.search.time_limit_s = 5;
  options.spent_s = 6;
  Comm comm;
  const CostNetwork network = chain(50);
  const Solution solution = solve_anytime(network, options, comm);
  EXPECT_EQ(solution.status, Status::kLimitReached);
  // One pass finds something all the same.
  EXPECT_EQ(evaluate(network, solution.assignment), solution.cost);
  EXPECT_LT(solution.cost, kForbidden);
}

/// Activations of `count` layers, each made again (cost) or held from its forward to its backward (usage). All are live
/// at the turn, so the optimum is that of a knapsack.
CostNetwork layers(std::uint32_t seed, int count) {
  std::mt19937 random(seed);
  CostNetwork network;
  std::int64_t total = 0;
  for (int layer = 0; layer < count; ++layer) {
    const std::int64_t usage = draw_between(random, 800, 1200);
    network.domains.push_back({{0, draw_between(random, 9'000, 11'000)}, {{usage, 0}}, {}});
    network.variables.push_back({layer, 0, {{layer, 2 * count - layer}}});
    total += usage;
  }
  network.usage_limit = total * 6 / 10;
  return network;
}

Cost knapsack_optimum(const CostNetwork& network) {
  std::vector<Cost> least(static_cast<std::size_t>(network.usage_limit) + 1, 0);  // by what may be used
  for (const Domain& domain : network.domains) {
    const auto usage = static_cast<std::size_t>(domain.usage[0][0]);
    for (std::size_t room = least.size(); room-- > 0;) {
      least[room] += domain.costs[1];
      if (room >= usage) least[room] = std::min(least[room], least[room - usage]);
    }
  }
  return least.back();
}

TEST(AnytimeTest, which_layers_to_make_again_is_proven) {
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    const CostNetwork network = layers(seed, 60);
    const Solution solution = solved(network, 2, false);
    EXPECT_EQ(solution.status, Status::kOptimal) << "seed " << seed;
    EXPECT_EQ(solution.cost, knapsack_optimum(network)) << "seed " << seed;
    EXPECT_EQ(evaluate(network, solution.assignment), solution.cost) << "seed " << seed;
  }
}

Shape large() {
  Shape shape;
  shape.num_variables = 250;
  shape.max_domain = 6;
  shape.percent_edges = 10;
  shape.percent_forbidden = 0;
  shape.max_cost = 1000;
  shape.num_times = 30;
  shape.percent_limit = 30;
  return shape;
}

TEST(AnytimeTest, a_bound_never_exceeds_a_solution_and_work_alone_decides) {
  int num_open = 0;
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const CostNetwork network = random_network(seed, large());
    const Solution one = solved(network, 1, true);
    const Solution two = solved(network, 2, true);
    EXPECT_EQ(one.assignment, two.assignment) << "seed " << seed;
    EXPECT_EQ(one.bound, two.bound) << "seed " << seed;
    ASSERT_FALSE(one.assignment.empty()) << "seed " << seed;
    EXPECT_EQ(evaluate(network, one.assignment), one.cost) << "seed " << seed;
    EXPECT_LE(one.bound, one.cost) << "seed " << seed;
    num_open += one.status == Status::kLimitReached ? 1 : 0;
  }
  EXPECT_GT(num_open, 0);
}

}  // namespace
}  // namespace autopar::engine
