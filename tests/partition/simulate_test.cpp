#include "partition/simulate.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

// Timelines small enough to be drawn by hand; times are in ps.
namespace autopar::partition {
namespace {

using costs::Phase;
using costs::Placement;
using Kind = costs::RedistributeStep::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kA = 1;  // mesh dims
constexpr std::uint32_t kB = 2;
constexpr std::int32_t kNobody = -1;
constexpr const char* kMatmul = "aten.mm.default";
constexpr const char* kView = "aten.t.default";
constexpr const char* kCast = "aten._to_copy.default";

/// A plan on a mesh of two dims, built line by line.
class Lines {
 public:
  Lines() {
    plan.mesh = {{2, 2}, {"a", "b"}};
    plan.memory.peak_node = 0;
  }

  std::int32_t input(std::int64_t optimizer_ps = 0) { return node("placeholder", std::nullopt, optimizer_ps); }
  std::int32_t forward(std::int64_t ps, const char* op = kMatmul) { return node(op, Phase::kForward, ps); }
  std::int32_t backward(std::int64_t ps, const char* op = kMatmul) { return node(op, Phase::kBackward, ps); }

  /// Of output 0 of `value` for input 0 of `reader` (kNobody: for an output of the graph), in the reader's phase.
  WrittenPlan::Redistribution& move(std::int32_t value, std::int32_t reader, std::vector<WrittenPlan::Step> steps) {
    WrittenPlan::Redistribution& entry = plan.redistributions.emplace_back();
    entry.value = {value, 0};
    entry.phase = *plan.nodes[static_cast<std::size_t>(reader == kNobody ? value : reader)].phase;
    entry.steps = std::move(steps);
    entry.uses.push_back(reader == kNobody ? Redistribution::Use{0, -1} : Redistribution::Use{reader, 0});
    return entry;
  }

  /// The same, started at the turn of `start` and finished at that of `finish` (kNobody: at the phase's end).
  WrittenPlan::Redistribution& move_ahead(std::int32_t value, std::int32_t reader, WrittenPlan::Step step,
                                          std::int32_t start, std::int32_t finish) {
    WrittenPlan::Redistribution& entry = move(value, reader, {step});
    entry.start = start;
    entry.finish = finish;
    return entry;
  }

  WrittenPlan plan;

 private:
  std::int32_t node(const char* op, std::optional<Phase> phase, std::int64_t ps) {
    WrittenPlan::Node& added = plan.nodes.emplace_back();
    added.key = "n" + std::to_string(plan.nodes.size() - 1);
    added.op = op;
    added.phase = phase;
    added.compute_ps = ps;
    plan.memory.node_bytes.push_back(0);
    return static_cast<std::int32_t>(plan.nodes.size()) - 1;
  }
};

WrittenPlan::Step gather(std::int64_t ps, std::uint32_t mesh_dims = kA, std::int64_t startup_ps = 0) {
  return {Kind::kAllGather, mesh_dims, {}, 0, ps, startup_ps};
}

WrittenPlan::Step step(Kind kind, std::int64_t ps, std::int64_t startup_ps = 0) {
  return {kind, kind == Kind::kZero ? kB : kA, {}, 0, ps, startup_ps};
}

/// When everything begins, in the order of issue: "label node begin-end".
std::vector<std::string> drawn(const Simulation& simulation) {
  std::vector<std::string> lines;
  for (const SimulatedEvent& event : simulation.events) {
    lines.push_back(event.label + " " + std::to_string(event.node) + " " + std::to_string(event.begin_ps) + "-" +
                    std::to_string(event.end_ps));
  }
  return lines;
}

TEST(SimulateTest, what_is_not_started_ahead_is_waited_for) {
  Lines lines;
  lines.input(5);
  const std::int32_t first = lines.forward(10);
  const std::int32_t second = lines.backward(20);
  lines.move(first, second, {step(Kind::kAllReduce, 7)});
  const Simulation simulation = simulate(lines.plan);
  EXPECT_THAT(drawn(simulation), ElementsAre("aten.mm.default 1 0-10", "all_reduce 1 10-17", "aten.mm.default 2 17-37",
                                             "optimizer -1 37-42"));
  EXPECT_EQ(simulation.step_ps, 42);
  EXPECT_EQ(simulation.compute_ps, 35);
  EXPECT_EQ(simulation.compute_busy_ps, 35);
  EXPECT_EQ(simulation.communication_ps, 7);
  EXPECT_EQ(simulation.exposed_ps(), 7);
  EXPECT_THAT(simulation.busy_ps, ElementsAre(7, 0));
}

TEST(SimulateTest, what_is_pipelined_runs_beside_matmuls) {
  Lines lines;
  lines.input(5);
  const std::int32_t first = lines.forward(10);
  const std::int32_t second = lines.forward(20);
  const std::int32_t third = lines.forward(1);
  lines.move(first, second, {step(Kind::kAllGather, 7)}).pipelined_ps = 5;
  lines.move(second, third, {step(Kind::kReduceScatter, 9)}).pipelined_ps = 6;
  const Simulation simulation = simulate(lines.plan);
  EXPECT_THAT(drawn(simulation),
              ElementsAre("aten.mm.default 1 0-10", "all_gather 1 10-17", "aten.mm.default 2 12-32",
                          "reduce_scatter 2 26-35", "aten.mm.default 3 35-36", "optimizer -1 36-41"));
  EXPECT_EQ(simulation.exposed_ps(), (7 - 5) + (9 - 6));
  EXPECT_EQ(simulation.communication_ps, 16);
}

TEST(SimulateTest, a_plan_of_nothing_takes_no_time) {
  EXPECT_EQ(simulate(Lines().plan).step_ps, 0);
  EXPECT_THAT(simulate(Lines().plan).events, IsEmpty());
}

/// A weight for the second of two ops of 10 ps, gathered while the first runs.
Lines prefetched(const std::vector<WrittenPlan::Step>& steps) {
  Lines lines;
  std::vector<std::int32_t> weights;
  for (std::size_t i = 0; i < steps.size(); ++i) weights.push_back(lines.input());
  const std::int32_t first = lines.forward(10);
  const std::int32_t second = lines.forward(10);
  for (std::size_t i = 0; i < steps.size(); ++i) lines.move_ahead(weights[i], second, steps[i], first, second);
  return lines;
}

TEST(SimulateTest, a_prefetch_hides_behind_the_ops_before_its_reader) {
  const Simulation simulation = simulate(prefetched({gather(8)}).plan);
  EXPECT_THAT(drawn(simulation), ElementsAre("all_gather 0 0-8", "aten.mm.default 1 0-10", "aten.mm.default 2 10-20"));
  EXPECT_EQ(simulation.exposed_ps(), 0);
  EXPECT_EQ(simulation.communication_ps, 8);
}

TEST(SimulateTest, what_takes_longer_than_these_ops_hides_in_part) {
  const Simulation simulation = simulate(prefetched({gather(14)}).plan);
  EXPECT_THAT(drawn(simulation), ElementsAre("all_gather 0 0-14", "aten.mm.default 1 0-10", "aten.mm.default 2 14-24"));
  EXPECT_EQ(simulation.exposed_ps(), 4);
}

TEST(SimulateTest, a_bucket_starts_up_once) {
  const Simulation simulation = simulate(prefetched({gather(8, kA, 2), gather(9, kA, 3)}).plan);
  // The longest start-up, 3, then 6 + 6.
  EXPECT_THAT(drawn(simulation),
              ElementsAre("all_gather x2 0 0-15", "aten.mm.default 2 0-10", "aten.mm.default 3 15-25"));
  EXPECT_THAT(simulation.events[0].redistributions, ElementsAre(0, 1));
  EXPECT_EQ(simulation.communication_ps, 15);
}

TEST(SimulateTest, buckets_are_of_one_kind_dtype_and_reduction) {
  EXPECT_EQ(simulate(prefetched({gather(8, kA, 2), step(Kind::kAllReduce, 8, 2)}).plan).busy_ps[0], 16);
  EXPECT_EQ(simulate(prefetched({step(Kind::kAllToAll, 8, 2), step(Kind::kAllToAll, 8, 2)}).plan).busy_ps[0], 16);
  Lines lines = prefetched({step(Kind::kReduceScatter, 8, 2), step(Kind::kReduceScatter, 8, 2)});
  EXPECT_EQ(simulate(lines.plan).busy_ps[0], 14);
  lines.plan.redistributions[0].from[0] = Placement::partial(costs::ReduceOp::kMax);
  lines.plan.redistributions[1].from[0] = Placement::partial();
  EXPECT_EQ(simulate(lines.plan).busy_ps[0], 16);
  lines.plan.redistributions[0].from[0] = Placement::partial();
  EXPECT_EQ(simulate(lines.plan).busy_ps[0], 14);
  lines.plan.redistributions[0].dtype = costs::DType::kBFloat16;
  EXPECT_EQ(simulate(lines.plan).busy_ps[0], 16);
}

TEST(SimulateTest, entries_started_at_different_turns_are_not_in_one_bucket) {
  Lines lines;
  const std::int32_t weight = lines.input();
  const std::int32_t other = lines.input();
  const std::int32_t first = lines.forward(10);
  const std::int32_t second = lines.forward(10);
  const std::int32_t third = lines.forward(10);
  lines.move_ahead(weight, third, gather(8, kA, 2), first, third);
  lines.move_ahead(other, third, gather(8, kA, 2), second, third);
  EXPECT_THAT(drawn(simulate(lines.plan)),
              ElementsAre("all_gather 0 0-8", "aten.mm.default 2 0-10", "all_gather 1 10-18", "aten.mm.default 3 10-20",
                          "aten.mm.default 4 20-30"));
}

TEST(SimulateTest, what_runs_ahead_runs_one_by_one) {
  const Simulation simulation = simulate(prefetched({gather(8, kA), gather(6, kA | kB), gather(3, kB)}).plan);
  EXPECT_THAT(drawn(simulation), ElementsAre("all_gather 0 0-8", "all_gather 1 8-14", "all_gather 2 14-17",
                                             "aten.mm.default 3 0-10", "aten.mm.default 4 17-27"));
  EXPECT_THAT(simulation.busy_ps, ElementsAre(14, 9));
}

TEST(SimulateTest, what_is_waited_for_runs_beside_what_runs_ahead) {
  Lines lines;
  const std::int32_t weight = lines.input();
  const std::int32_t first = lines.forward(10);
  const std::int32_t second = lines.forward(10);
  const std::int32_t third = lines.forward(10);
  lines.move_ahead(weight, third, gather(14), first, third);
  lines.move(first, second, {gather(5)});
  EXPECT_THAT(drawn(simulate(lines.plan)),
              ElementsAre("all_gather 0 0-14", "aten.mm.default 1 0-10", "all_gather 1 10-15",
                          "aten.mm.default 2 15-25", "aten.mm.default 3 25-35"));
}

TEST(SimulateTest, only_the_last_collective_runs_ahead) {
  Lines lines;
  const std::int32_t weight = lines.input();
  const std::int32_t first = lines.forward(10);
  const std::int32_t second = lines.forward(10);
  WrittenPlan::Redistribution& entry = lines.move_ahead(weight, second, step(Kind::kAllToAll, 4), first, second);
  entry.steps.push_back(gather(8));
  entry.steps.push_back(step(Kind::kZero, 3));
  const Simulation simulation = simulate(lines.plan);
  EXPECT_THAT(drawn(simulation), ElementsAre("all_to_all 0 0-4", "all_gather 0 4-12", "aten.mm.default 1 4-14",
                                             "zero 0 14-17", "aten.mm.default 2 17-27"));
  EXPECT_EQ(simulation.compute_ps, 20);
  EXPECT_EQ(simulation.compute_busy_ps, 23);
}

TEST(SimulateTest, without_a_collective_all_runs_at_the_start) {
  EXPECT_THAT(drawn(simulate(prefetched({step(Kind::kZero, 3)}).plan)),
              ElementsAre("zero 0 0-3", "aten.mm.default 1 3-13", "aten.mm.default 2 13-23"));
}

TEST(SimulateTest, what_a_prefetch_starts_from_is_made_on_demand) {
  Lines lines;
  lines.input();
  const std::int32_t first = lines.forward(10);
  const std::int32_t cast = lines.forward(3, kCast);
  const std::int32_t second = lines.forward(10);
  lines.move_ahead(cast, second, gather(8), first, second);
  EXPECT_THAT(drawn(simulate(lines.plan)), ElementsAre("aten._to_copy.default 2 0-3", "all_gather 2 3-11",
                                                       "aten.mm.default 1 3-13", "aten.mm.default 3 13-23"));
}

/// A gradient that the first of three ops makes, reduced from the second on.
Lines deferred(std::int32_t finish, const char* reader_op) {
  Lines lines;
  const std::int32_t first = lines.backward(10);
  const std::int32_t cast = lines.backward(3, reader_op);
  const std::int32_t second = lines.backward(10);
  lines.backward(10);
  lines.move_ahead(first, cast, step(Kind::kReduceScatter, 14), second, finish);
  return lines;
}

TEST(SimulateTest, a_gradient_can_come_at_the_end) {
  const Simulation simulation = simulate(deferred(-1, kCast).plan);
  EXPECT_THAT(drawn(simulation),
              ElementsAre("aten.mm.default 0 0-10", "reduce_scatter 0 10-24", "aten.mm.default 2 10-20",
                          "aten.mm.default 3 20-30", "aten._to_copy.default 1 30-33"));
}

TEST(SimulateTest, casts_of_a_gradient_are_put_off_until_it_is_finished) {
  EXPECT_THAT(drawn(simulate(deferred(3, kCast).plan)),
              ElementsAre("aten.mm.default 0 0-10", "reduce_scatter 0 10-24", "aten.mm.default 2 10-20",
                          "aten._to_copy.default 1 24-27", "aten.mm.default 3 27-37"));
}

TEST(SimulateTest, so_is_what_reads_these_casts) {
  Lines lines = deferred(3, kView);
  const std::int32_t cast = lines.backward(4, kCast);
  const std::int32_t last = lines.backward(10);
  lines.plan.redistributions[0].finish = last;
  lines.move(1, cast, {gather(2)});
  EXPECT_THAT(drawn(simulate(lines.plan)),
              ElementsAre("aten.mm.default 0 0-10", "reduce_scatter 0 10-24", "aten.mm.default 2 10-20",
                          "aten.mm.default 3 20-30", "aten.t.default 1 30-33", "all_gather 1 33-35",
                          "aten._to_copy.default 4 35-39", "aten.mm.default 5 39-49"));
}

TEST(SimulateTest, a_gradient_for_an_output_alone_needs_no_reader) {
  Lines lines;
  const std::int32_t first = lines.backward(10);
  const std::int32_t second = lines.backward(10);
  lines.move_ahead(first, kNobody, step(Kind::kReduceScatter, 14), second, -1);
  EXPECT_EQ(simulate(lines.plan).step_ps, 24);
  lines.plan.redistributions[0].start = -1;
  EXPECT_THAT(drawn(simulate(lines.plan)),
              ElementsAre("aten.mm.default 0 0-10", "reduce_scatter 0 10-24", "aten.mm.default 1 24-34"));
}

TEST(SimulateTest, other_readers_wait_also_before_the_finish) {
  Lines lines;
  const std::int32_t first = lines.backward(10);
  const std::int32_t second = lines.backward(10);
  const std::int32_t third = lines.backward(10);
  lines.move_ahead(first, third, step(Kind::kReduceScatter, 25), second, -1);
  EXPECT_THAT(drawn(simulate(lines.plan)), ElementsAre("aten.mm.default 0 0-10", "reduce_scatter 0 10-35",
                                                       "aten.mm.default 1 10-20", "aten.mm.default 2 35-45"));
}

TEST(SimulateTest, what_is_read_before_its_start_runs_then_and_once) {
  Lines lines = deferred(-1, kMatmul);
  EXPECT_THAT(drawn(simulate(lines.plan)),
              ElementsAre("aten.mm.default 0 0-10", "reduce_scatter 0 10-24", "aten.mm.default 1 24-27",
                          "aten.mm.default 2 27-37", "aten.mm.default 3 37-47"));
}

TEST(SimulateTest, entries_that_start_from_others_run_behind_them) {
  Lines lines;
  const std::int32_t first = lines.forward(10);
  const std::int32_t second = lines.forward(10);
  lines.move(first, second, {gather(4)}).uses.clear();
  lines.move(first, second, {step(Kind::kAllToAll, 5)}).source = 0;
  EXPECT_THAT(drawn(simulate(lines.plan)), ElementsAre("aten.mm.default 0 0-10", "all_gather 0 10-14",
                                                       "all_to_all 0 14-19", "aten.mm.default 1 19-29"));
}

TEST(SimulateTest, what_is_saved_is_made_at_the_end_of_the_forward) {
  Lines lines;
  const std::int32_t first = lines.forward(10);
  lines.forward(10);
  const std::int32_t last = lines.backward(10);
  WrittenPlan::Redistribution& saved = lines.move(first, last, {step(Kind::kReduceScatter, 4)});
  saved.phase = Phase::kForward;
  saved.is_saved = true;
  saved.uses.clear();
  lines.move(first, last, {gather(5)});
  EXPECT_THAT(drawn(simulate(lines.plan)),
              ElementsAre("aten.mm.default 0 0-10", "aten.mm.default 1 10-20", "reduce_scatter 0 20-24",
                          "all_gather 0 24-29", "aten.mm.default 2 29-39"));
}

TEST(SimulateTest, what_both_phases_read_is_made_once) {
  Lines lines = prefetched({gather(8)});
  lines.plan.redistributions[0].is_saved = true;
  lines.backward(10);  // reads what is there
  EXPECT_THAT(drawn(simulate(lines.plan)), ElementsAre("all_gather 0 0-8", "aten.mm.default 1 0-10",
                                                       "aten.mm.default 2 10-20", "aten.mm.default 3 20-30"));
}

TEST(SimulateTest, sums_inside_an_op_are_waited_for) {
  Lines lines;
  const std::int32_t loss = lines.forward(10);
  lines.forward(10);
  lines.plan.nodes[static_cast<std::size_t>(loss)].all_reduces = {{1, costs::DType::kFloat32, 8, 3}};
  const Simulation simulation = simulate(lines.plan);
  EXPECT_THAT(drawn(simulation),
              ElementsAre("aten.mm.default 0 0-10", "all_reduce 0 10-13", "aten.mm.default 1 13-23"));
  EXPECT_THAT(simulation.busy_ps, ElementsAre(0, 3));
}

TEST(SimulateTest, forward_nodes_run_before_backward_nodes_wherever_they_stand) {
  Lines lines;
  lines.backward(1);
  lines.forward(2);
  EXPECT_THAT(drawn(simulate(lines.plan)), ElementsAre("aten.mm.default 1 0-2", "aten.mm.default 0 2-3"));
}

TEST(SimulateTest, memory_is_told_at_every_turn) {
  Lines lines;
  lines.input(5);
  const std::int32_t first = lines.forward(10);
  const std::int32_t second = lines.forward(10);
  lines.move(first, second, {gather(4)});
  lines.plan.memory.node_bytes = {0, 70, 90};
  const Simulation simulation = simulate(lines.plan);
  ASSERT_EQ(simulation.memory.size(), 2U);
  EXPECT_EQ(simulation.memory[1].time_ps, 10);  // its inputs are redistributed then
  EXPECT_EQ(simulation.peak().bytes, 90);
  EXPECT_EQ(simulation.peak().node, second);
  lines.plan.memory.peak_node = -1;
  lines.plan.memory.peak_bytes = 100;
  const Simulation at_the_end = simulate(lines.plan);
  EXPECT_EQ(at_the_end.peak().bytes, 100);
  EXPECT_EQ(at_the_end.peak().node, -1);
  EXPECT_EQ(at_the_end.peak().time_ps, 24);
}

}  // namespace
}  // namespace autopar::partition
