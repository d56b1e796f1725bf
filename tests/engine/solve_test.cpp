#include "engine/solve.h"

#include <gtest/gtest.h>

#include "engine/comm.h"
#include "tests/engine/random_network.h"

namespace autopar::engine {
namespace {

using testing::exhaustive_optimum;
using testing::random_network;
using testing::Shape;

void expect_optimal(const CostNetwork& network, const Options& options, std::uint32_t seed) {
  Comm comm;
  const Cost optimum = exhaustive_optimum(network);
  const Solution solution = solve(network, options, comm);
  ASSERT_EQ(solution.cost, optimum) << "seed " << seed;
  if (optimum >= kForbidden) {
    ASSERT_EQ(solution.status, Status::kInfeasible) << "seed " << seed;
    return;
  }
  ASSERT_EQ(solution.status, Status::kOptimal) << "seed " << seed;
  ASSERT_EQ(evaluate(network, solution.assignment), optimum) << "seed " << seed;
  ASSERT_EQ(solution.bound, optimum) << "seed " << seed;
}

TEST(SolveTest, equals_exhaustive_search_without_usage) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) expect_optimal(random_network(seed, {}), {}, seed);
}

TEST(SolveTest, equals_exhaustive_search_with_many_ties) {
  Shape shape;
  shape.max_cost = 2;
  for (std::uint32_t seed = 0; seed < 200; ++seed) expect_optimal(random_network(seed, shape), {}, seed);
}

TEST(SolveTest, equals_exhaustive_search_with_usage_over_time) {
  Shape shape;
  shape.num_times = 4;
  for (int percent : {20, 40, 60}) {
    shape.percent_limit = percent;
    for (std::uint32_t seed = 0; seed < 150; ++seed) expect_optimal(random_network(seed, shape), {}, seed);
  }
}

TEST(SolveTest, equals_exhaustive_search_when_relations_are_small_and_it_must_branch) {
  Shape shape;
  shape.percent_edges = 80;
  shape.num_times = 2;
  Options options;
  options.max_rows = 6;
  for (std::uint32_t seed = 0; seed < 150; ++seed) expect_optimal(random_network(seed, shape), options, seed);
}

TEST(SolveTest, large_costs_do_not_overflow) {
  Shape shape;
  shape.max_cost = Cost{1} << 31;
  for (std::uint32_t seed = 0; seed < 100; ++seed) expect_optimal(random_network(seed, shape), {}, seed);
}

}  // namespace
}  // namespace autopar::engine
