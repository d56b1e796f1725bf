#include <gtest/gtest.h>

#include <algorithm>

#include "costs/fusion.h"
#include "partition/holdings.h"
#include "partition/recompute.h"
#include "toy.h"

namespace autopar::partition {
namespace {

using testing::OutputRole;
using testing::Phase;
using testing::Role;
using testing::ToyGraph;
using testing::ValueRef;

/// relu(x + x) times its gradient, which reads relu again.
struct FusedStep {
  FusedStep() {
    const ValueRef x = toy.input(Role::kParameter, "x", {64, 64});
    sum = toy.op("add.Tensor", {ToyGraph::ref(x), ToyGraph::ref(x)}, {64, 64});
    relu = toy.op("relu.default", {ToyGraph::ref(sum)}, {64, 64});
    toy.output(toy.op("sum.default", {ToyGraph::ref(relu)}, {}), OutputRole::kLoss);
    toy.phase = Phase::kBackward;
    const ValueRef square = toy.op("mul.Tensor", {ToyGraph::ref(relu), ToyGraph::ref(relu)}, {64, 64});
    toy.output(toy.op("neg.default", {ToyGraph::ref(square)}, {64, 64}), OutputRole::kGradient, x);
    costs::fuse(toy.graph);
  }

  static bool is_held(const costs::Graph& graph, ValueRef value) {
    const std::vector<PhaseUses> uses = collect_uses(graph);
    const std::vector<Holding> holdings =
        find_holdings(graph, Timeline::of(graph), uses, std::vector<char>(uses.size(), 0), nullptr);
    return std::any_of(holdings.begin(), holdings.end(),
                       [&](const Holding& holding) { return holding.value == value && !holding.only_if_moved; });
  }

  ToyGraph toy;
  ValueRef sum;
  ValueRef relu;
};

TEST(FusedMemoryTest, what_stays_in_a_kernel_takes_no_memory) {
  FusedStep step;
  EXPECT_FALSE(FusedStep::is_held(step.toy.graph, step.sum));
  EXPECT_TRUE(FusedStep::is_held(step.toy.graph, step.relu));
}

TEST(FusedMemoryTest, what_runs_again_inside_a_kernel_takes_none) {
  FusedStep step;
  Problem problem;
  problem.graph = step.toy.graph;
  std::vector<char> which(problem.graph.nodes.size(), 0);
  which[static_cast<std::size_t>(step.sum.node)] = which[static_cast<std::size_t>(step.relu.node)] = 1;
  const RepeatedProblem repeated = with_repeated(problem, which, true);
  const std::int32_t again = repeated.again_of[static_cast<std::size_t>(step.relu.node)];
  ASSERT_GE(again, 0);
  EXPECT_FALSE(FusedStep::is_held(repeated.problem.graph, {again, 0}));
}

}  // namespace
}  // namespace autopar::partition
