#include "io/write_problem.h"

#include <gtest/gtest.h>

#include "io/read_problem.h"
#include "tests/engine/random_network.h"

namespace autopar::io {
namespace {

TEST(WriteProblemTest, what_is_read_back_has_the_same_optimum) {
  engine::testing::Shape shape;
  shape.num_variables = 4;
  shape.max_domain = 3;
  shape.num_times = 6;
  shape.percent_limit = 45;
  int num_feasible = 0;
  int num_helped = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    engine::CostNetwork network = engine::testing::random_network(seed, shape);
    if (seed % 5 == 0) network.usage_limit = -1;
    const TableProblem problem = read_problem("p.json", format_problem("a \"name\"", network));
    EXPECT_EQ(problem.name, "a \"name\"");
    const engine::Cost best = engine::testing::exhaustive_optimum(network);
    EXPECT_EQ(engine::testing::exhaustive_optimum(problem.network), best) << "seed " << seed;
    num_feasible += best < engine::kForbidden ? 1 : 0;
    num_helped += problem.network.num_variables() > network.num_variables() ? 1 : 0;
  }
  EXPECT_GT(num_feasible, 50);
  EXPECT_GT(num_helped, 50);
}

}  // namespace
}  // namespace autopar::io
