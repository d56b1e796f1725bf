#include "launch/summary.h"

#include <gmock/gmock.h>

#include "io/read_constraints.h"
#include "io/read_model.h"
#include "launch/explain.h"
#include "launch/units.h"
#include "tests/io/tiny.h"

namespace autopar::launch {
namespace {

using costs::Placement;
using costs::Placements;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using Kind = costs::RedistributeStep::Kind;

// Nodes of the tiny example.
constexpr std::size_t kFc1 = 0;
constexpr std::size_t kFc2 = 1;
constexpr std::size_t kX = 2;
constexpr std::size_t kFc1T = 4;
constexpr std::size_t kMm1 = 5;
constexpr std::size_t kMm2 = 8;
constexpr std::size_t kFc1Gradient = 16;

/// The tiny example on two mesh dims, by hand: the batch split over dp and fc1 gathered from its shards; fc1
/// column-parallel and fc2 row-parallel over tp.
struct Example {
  partition::Problem problem;
  partition::Plan plan;
  io::PlanResult solution;

  Example() {
    problem.graph = io::read_model(testing::tiny_path()).graph_file.graph;
    problem.mesh = {{2, 4}, {"dp", "tp"}};
    problem.pins.nodes.resize(problem.graph.nodes.size());
    problem.pins.outputs.resize(problem.graph.outputs.size());
    problem.pins.memory_limit_bytes = std::int64_t{80} << 30;
    plan.mesh = problem.mesh;
    for (const costs::Node& node : problem.graph.nodes) {
      plan.nodes.push_back(
          {std::vector<Placements>(node.inputs.size()), std::vector<Placements>(node.outputs.size()), 0});
    }
    const Placement s0 = Placement::shard(0);
    const Placement s1 = Placement::shard(1);
    set(plan.nodes[kFc1].outputs[0], s0, s0);
    set(plan.nodes[kFc2].outputs[0], Placement(), s1);
    set(plan.nodes[kX].outputs[0], s0, Placement());
    set(plan.nodes[kMm1].inputs[0], s0, Placement());
    set(plan.nodes[kMm1].inputs[1], Placement(), s1);
    set(plan.nodes[kMm1].outputs[0], s0, s1);
    set(plan.nodes[kMm2].inputs[0], s0, s1);
    set(plan.nodes[kMm2].inputs[1], Placement(), s0);
    set(plan.nodes[kMm2].outputs[0], s0, Placement::partial());
    plan.redistributions.push_back(move(kFc1, Kind::kAllGather, static_cast<std::int32_t>(kFc1T), 0));
    plan.redistributions.push_back(move(kFc1Gradient, Kind::kReduceScatter, 1, -1));
    plan.cost_ps = 4'000'000'000;
    plan.compute_ps = 3'000'000'000;
    plan.communication_ps = 1'000'000'000;
    plan.memory_limit_bytes = problem.pins.memory_limit_bytes;
    plan.memory.peak_bytes = std::int64_t{3} << 30;
    plan.memory.peak_node = static_cast<std::int32_t>(kMm2);
    plan.memory.peak_parts = {std::int64_t{1} << 30, 0, 0, 0, std::int64_t{2} << 30, 0};
    solution.bound = plan.cost_ps;
    solution.status = engine::Status::kOptimal;
  }

  static void set(Placements& placements, Placement dp, Placement tp) {
    placements[0] = dp;
    placements[1] = tp;
  }
  static partition::Redistribution move(std::size_t value, Kind kind, std::int32_t user, std::int32_t input) {
    return {{static_cast<std::int32_t>(value), 0},
            {},
            {},
            {},
            {{kind, 1, {}, {}, 2 << 20, 500'000'000}},
            {{user, input}},
            false};
  }
  std::string text() const {
    return summary(problem, plan, {solution.status, solution.bound, solution.stats}, io::RunInfo{2, 8, 0.1, 0.2, 0.3});
  }
};

TEST(SummaryTest, states_result_times_and_parameters) {
  const std::string text = Example().text();
  EXPECT_THAT(text, AllOf(HasSubstr("tiny_mlp on 8 devices (dp=2, tp=4)"), HasSubstr("4.000 ms, proven optimal"),
                          HasSubstr("2 ranks, 8 threads each"), HasSubstr("3.000 ms compute (75.0%)"),
                          HasSubstr("1.000 ms communication (25.0%)"),
                          HasSubstr("3.000 GiB of 80.00 GiB per device at the peak, fc2/f/mm\n"),
                          HasSubstr(" parameters 1.000 GiB, saved 2.000 GiB\n")));
  EXPECT_THAT(text, ::testing::ContainsRegex("dp +all_gather +1 +2.000 MiB +0.500"));
  EXPECT_THAT(text, ::testing::ContainsRegex("fc1.weight +bf16\\[4096,1024\\] +dp: S\\(0\\) +tp: S\\(0\\)"));
}

TEST(SummaryTest, a_peak_behind_all_nodes_is_the_optimizers) {
  Example example;
  example.plan.memory.peak_node = -1;
  EXPECT_THAT(example.text(), HasSubstr("at the peak, the optimizer's step\n"));
}

TEST(SummaryTest, says_how_far_an_unproven_plan_can_be_off) {
  Example example;
  example.solution.status = engine::Status::kLimitReached;
  example.solution.bound = 3'900'000'000;
  EXPECT_THAT(example.text(), HasSubstr("not proven optimal, at most 2.56% above the optimum"));
  example.solution.status = engine::Status::kOptimal;
  EXPECT_THAT(example.text(), HasSubstr("4.000 ms, at most 2.56% above the optimum"));
  example.solution.bound = 1'000'000'000;
  EXPECT_THAT(example.text(), HasSubstr("4.000 ms, at most 4.0 times the optimum"));
  example.solution.bound = 1'000'000;
  EXPECT_THAT(example.text(), HasSubstr("4.000 ms, at most 4000 times the optimum"));
}

TEST(ExplainTest, says_which_gathered_parameters_are_kept) {
  Example example;
  example.plan.redistributions[0].is_saved = true;
  EXPECT_THAT(
      explain_mesh_dim(example.problem, example.plan, 0),
      Contains("parameters sharded at rest (50% of bytes), gathered before use (50%), kept for the backward (50%)"));
}

TEST(ExplainTest, names_what_each_mesh_dim_does) {
  const Example example;
  const auto dp = explain_mesh_dim(example.problem, example.plan, 0);
  EXPECT_THAT(dp, Contains("all 2 weight matmuls data-parallel"));
  EXPECT_THAT(dp, Contains("inputs: x split along dim 0"));
  EXPECT_THAT(dp, Contains("parameters sharded at rest (50% of bytes), gathered before use (50%)"));
  EXPECT_THAT(dp, Contains("gradients reduce-scattered (1 of 2)"));
  const auto tp = explain_mesh_dim(example.problem, example.plan, 1);
  EXPECT_THAT(tp, Contains("column-parallel: fc1"));
  EXPECT_THAT(tp, Contains("row-parallel: fc2"));
  EXPECT_THAT(tp, Contains("inputs: x replicated"));
  EXPECT_THAT(tp, Contains("parameters sharded at rest (100% of bytes)"));
}

TEST(UnitsTest, are_as_a_person_reads_them) {
  EXPECT_EQ(time_text(0), "0 ps");
  EXPECT_EQ(time_text(999), "999.0 ps");
  EXPECT_EQ(time_text(12'340'000'000), "12.34 ms");
  EXPECT_EQ(time_text(3'600'000'000'000'000), "3600 s");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.500 KiB");
  EXPECT_EQ(bytes_text(std::int64_t{80} << 30), "80.00 GiB");
}

}  // namespace
}  // namespace autopar::launch
