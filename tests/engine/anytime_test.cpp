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
  options.search.time_limit_s = is_deterministic ? 0.01 : 10;
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
