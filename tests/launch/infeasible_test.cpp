#include "launch/infeasible.h"

#include <gmock/gmock.h>

#include "io/read_model.h"
#include "tests/io/tiny.h"

namespace autopar::launch {
namespace {

using costs::Placement;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Nodes of the tiny example.
constexpr std::size_t kFc1 = 0;
constexpr std::int32_t kMm2 = 8;

partition::Problem tiny_problem() {
  partition::Problem problem;
  problem.graph = io::read_model(testing::tiny_path()).graph_file.graph;
  problem.mesh = {{2, 4}, {"dp", "tp"}};
  problem.pins.nodes.resize(problem.graph.nodes.size());
  problem.pins.outputs.resize(problem.graph.outputs.size());
  problem.pins.memory_limit_bytes = 1 << 20;
  return problem;
}

TEST(InfeasibleTest, what_cannot_hold_together_is_named) {
  partition::Problem problem = tiny_problem();
  EXPECT_THAT(explain_contradiction(problem), HasSubstr("no combination of the ops' strategies is possible"));
  problem.pins.nodes[kFc1] = {{Placement::replicate()}, "c.json: parameters.fc1"};
  EXPECT_THAT(explain_contradiction(problem), HasSubstr("cannot hold together: c.json: parameters.fc1"));
  problem.graph.nodes.back().strategies.emplace_back();
  EXPECT_THAT(explain_contradiction(problem),
              HasSubstr("the strategies that the model lists for \"" + problem.graph.nodes.back().key));
}

TEST(InfeasibleTest, states_the_least_memory_and_where_it_is_needed) {
  const partition::Problem problem = tiny_problem();
  Advice advice;
  advice.least.bound_bytes = 3 << 20;
  advice.least.point = {kMm2, false, 2};
  EXPECT_THAT(explain_memory(problem, advice, true),
              AllOf(HasSubstr("no plan keeps within 1.000 MiB (1048576 bytes) per device"),
                    HasSubstr("at least 3.000 MiB (3145728 bytes), while fc2/f/mm (forward) runs"),
                    Not(HasSubstr("help")), Not(HasSubstr("together"))));
  EXPECT_THAT(explain_memory(problem, advice, false), HasSubstr("nor proven not to be"));
  advice.least.point = {};
  advice.too_low = 4 << 20;
  EXPECT_THAT(explain_memory(problem, advice, true),
              AllOf(HasSubstr("at the optimizer's step"), HasSubstr("need more than 4.000 MiB")));
}

TEST(InfeasibleTest, every_way_out_is_told) {
  const partition::Problem problem = tiny_problem();
  Advice advice;
  advice.limit = Advice::Limit{5 << 20, 2'000'000'000};
  advice.times_size = 4;
  advice.recompute = true;
  advice.pins = {"a", "b"};
  EXPECT_THAT(explain_memory(problem, advice, true),
              AllOf(HasSubstr("with a limit of 5.000 MiB (5242880 bytes) there is a plan of 2.000 ms per step"),
                    HasSubstr("on 32 devices (--mesh dp=8,tp=4)"), HasSubstr("without \"recompute\""),
                    HasSubstr("without the pins a and b")));
}

}  // namespace
}  // namespace autopar::launch
