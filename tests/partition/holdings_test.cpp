#include "partition/holdings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "toy.h"

namespace autopar::partition {
namespace {

using testing::Arg;
using ::testing::ElementsAre;
using testing::OutputRole;
using testing::Phase;
using testing::Role;
using testing::ToyGraph;
using ::testing::UnorderedElementsAre;
using testing::ValueRef;

/// Time points are counted by hand: an op of one input reads, runs and gives at three in a row, one of two inputs has a
/// fourth; graph inputs have none.
class HoldingsTest : public ::testing::Test {
 protected:
  /// What is held of `value` and its views: "value 1-3" counts at the time points 1 and 2 whatever is moved, "read 4.0
  /// if moved 2-4" (input 0 of node 4) only if that is moved. `saved`: values that the plan may cut to save them.
  std::vector<std::string> held(ValueRef value, const std::vector<ValueRef>& saved = {}) const {
    return texts(value, saved, false);
  }

  /// When something may be made by a redistribution; "freeing": what it starts from is needed by nothing else then.
  std::vector<std::string> made(ValueRef value, const std::vector<ValueRef>& saved = {}) const {
    return texts(value, saved, true);
  }

  std::vector<std::string> texts(ValueRef value, const std::vector<ValueRef>& saved, bool is_making) const {
    const std::vector<PhaseUses> uses = collect_uses(toy.graph);
    std::vector<char> is_saved;
    for (const PhaseUses& one : uses) {
      const bool found = std::find(saved.begin(), saved.end(), one.value) != saved.end();
      is_saved.push_back(found && one.phase == Phase::kBackward ? 1 : 0);
    }
    std::vector<std::string> found;
    for (const Holding& holding : find_holdings(toy.graph, Timeline::of(toy.graph), uses, is_saved, nullptr)) {
      if (holding.value != value || holding.making.has_value() != is_making) continue;
      EXPECT_TRUE(!is_making || holding.only_if_moved);
      found.push_back(text(holding, uses));
    }
    return found;
  }

  static std::string text(const Holding& holding, const std::vector<PhaseUses>& uses) {
    std::string name = "value";
    if (holding.kind != Holding::Kind::kValue) {
      const PhaseUses& group = uses[static_cast<std::size_t>(holding.uses)];
      name = holding.kind == Holding::Kind::kSaved  ? "saved"
             : holding.kind == Holding::Kind::kKept ? "kept"
             : holding.kind == Holding::Kind::kRead ? ""
             : group.phase == Phase::kForward       ? "forward copy"
                                                    : "backward copy";
      if (holding.kind == Holding::Kind::kRead) {
        const Redistribution::Use& use = group.uses[static_cast<std::size_t>(holding.use)];
        name = use.input < 0 ? "output " + std::to_string(use.node)
                             : "read " + std::to_string(use.node) + "." + std::to_string(use.input);
      }
    }
    if (holding.only_if_moved && !holding.making) name += " if moved";
    if (holding.frees_source) name += " freeing";
    return name + " " + std::to_string(holding.span.start) + "-" + std::to_string(holding.span.end);
  }

  ToyGraph toy;
};

TEST_F(HoldingsTest, time_points_are_those_of_the_forward_then_of_the_backward) {
  const ValueRef x = toy.input(Role::kInput, "x", {8});
  toy.phase = Phase::kBackward;
  const ValueRef late = toy.op("relu.default", {ToyGraph::ref(x)}, {8});
  toy.phase = Phase::kForward;
  const ValueRef early = toy.op("relu.default", {ToyGraph::ref(x)}, {8});
  const Timeline timeline = Timeline::of(toy.graph);
  EXPECT_THAT(timeline.first_time, ElementsAre(-1, 3, 0));
  EXPECT_THAT(timeline.node_at, ElementsAre(early.node, early.node, early.node, late.node, late.node, late.node, -1));
  EXPECT_EQ(timeline.read_time(late.node, 0), 3);
  EXPECT_EQ(timeline.run_time(late.node), 4);
  EXPECT_EQ(timeline.give_time(late.node), 5);
  EXPECT_EQ(timeline.num_times(), 7);
}

TEST_F(HoldingsTest, in_a_chain_each_tensor_lives_until_its_reader_ran) {
  const ValueRef x = toy.input(Role::kInput, "x", {8});
  const ValueRef a = toy.op("relu.default", {ToyGraph::ref(x)}, {8});
  const ValueRef b = toy.op("relu.default", {ToyGraph::ref(a)}, {8});
  toy.output(b, OutputRole::kOutput);
  // a is made at 1 and read at 3; what b gets of it, itself or moved, is there until b ran at 4.
  EXPECT_THAT(held(a), UnorderedElementsAre("value 1-3", "read 2.0 3-5"));
  EXPECT_THAT(made(a), UnorderedElementsAre("read 2.0 freeing 3-4"));
  // b is handed out behind its making, and kept.
  EXPECT_THAT(held(b), UnorderedElementsAre("value 4-5", "output 0 5-7"));
  EXPECT_THAT(made(b), UnorderedElementsAre("output 0 freeing 5-6"));
}

TEST_F(HoldingsTest, graph_inputs_are_held_from_the_first_time_point_to_the_last) {
  const ValueRef x = toy.input(Role::kInput, "x", {8});
  const ValueRef unread = toy.input(Role::kInput, "y", {8});
  const ValueRef a = toy.op("relu.default", {ToyGraph::ref(x)}, {8});
  toy.output(toy.op("relu.default", {ToyGraph::ref(a)}, {8}), OutputRole::kOutput);
  EXPECT_THAT(held(x), UnorderedElementsAre("value 0-7", "read 2.0 if moved 0-2"));
  EXPECT_THAT(held(unread), UnorderedElementsAre("value 0-7"));
}

TEST_F(HoldingsTest, what_nobody_reads_is_there_while_its_op_runs) {
  const ValueRef x = toy.input(Role::kInput, "x", {8});
  const ValueRef a = toy.op("relu.default", {ToyGraph::ref(x)}, {8});
  toy.output(toy.op("relu.default", {ToyGraph::ref(x)}, {8}), OutputRole::kOutput);
  EXPECT_THAT(held(a), UnorderedElementsAre("value 1-2"));
}

TEST_F(HoldingsTest, readers_of_one_phase_share_a_copy_until_the_last_has_its_own) {
  const ValueRef x = toy.input(Role::kInput, "x", {8});
  const ValueRef a = toy.op("relu.default", {ToyGraph::ref(x)}, {8});  // node 1 at 0-2
  const ValueRef b = toy.op("relu.default", {ToyGraph::ref(a)}, {8});  // node 2 at 3-5
  toy.op("relu.default", {ToyGraph::ref(b)}, {8});                     // node 3 at 6-8
  toy.op("add.Tensor", {ToyGraph::ref(b), ToyGraph::ref(a)}, {8});     // node 4 at 9-12
  // The copy is made at 3, from the value, which nobody else needs: it stands for both until the last has its own.
  EXPECT_THAT(held(a),
              UnorderedElementsAre("value 1-3", "forward copy 3-10", "read 2.0 if moved 3-5", "read 4.1 10-12"));
  EXPECT_THAT(made(a), UnorderedElementsAre("forward copy freeing 3-4", "read 2.0 3-4", "read 4.1 freeing 10-11"));
}

TEST_F(HoldingsTest, a_view_is_the_storage_that_it_is_a_view_of) {
  const ValueRef x = toy.input(Role::kInput, "x", {4, 8});
  const ValueRef a = toy.op("relu.default", {ToyGraph::ref(x)}, {4, 8});                                 // at 0-2
  const ValueRef t = toy.op("t.default", {ToyGraph::ref(a)}, {8, 4});                                    // at 3-5
  const ValueRef v = toy.op("view.default", {ToyGraph::ref(t), {Arg::List{{std::int64_t{32}}}}}, {32});  // at 6-8
  toy.op("relu.default", {ToyGraph::ref(v)}, {32});                                                      // at 9-11
  EXPECT_THAT(held(a), UnorderedElementsAre("value 1-3", "read 2.0 3-6"));
  // What the first view's reader gets stands for the storage while it runs; the view itself has none.
  EXPECT_THAT(held(t), UnorderedElementsAre("read 3.0 6-9"));
  EXPECT_THAT(held(v), UnorderedElementsAre("read 4.0 9-11"));
}

TEST_F(HoldingsTest, a_view_of_a_part_holds_the_whole) {
  const ValueRef x = toy.input(Role::kInput, "x", {4, 8});
  const ValueRef a = toy.op("relu.default", {ToyGraph::ref(x)}, {4, 8});     // node 1 at 0-2
  const ValueRef part = toy.op("slice.Tensor", {ToyGraph::ref(a)}, {2, 8});  // node 2 at 3-5
  toy.op("relu.default", {ToyGraph::ref(part)}, {2, 8});                     // node 3 at 6-8
  // If nothing is moved, the slice's storage is all of a.
  EXPECT_THAT(held(a), UnorderedElementsAre("value 1-3", "read 2.0 3-8"));
  EXPECT_THAT(held(part), UnorderedElementsAre("read 3.0 if moved 6-8"));
  EXPECT_THAT(made(part), UnorderedElementsAre("read 3.0 6-7"));
}

TEST_F(HoldingsTest, outputs_of_a_split_keep_all_of_it_until_the_last_is_done) {
  const ValueRef x = toy.input(Role::kInput, "x", {4, 8});
  const ValueRef a = toy.op("relu.default", {ToyGraph::ref(x)}, {4, 8});                         // node 1 at 0-2
  const ValueRef first = toy.op("split.Tensor", {ToyGraph::ref(a), {std::int64_t{2}}}, {2, 8});  // node 2 at 3-5
  costs::Node& split = toy.graph.nodes[static_cast<std::size_t>(first.node)];
  split.outputs.push_back(split.outputs[0]);
  const ValueRef second{first.node, 1};
  toy.op("relu.default", {ToyGraph::ref(first)}, {2, 8});   // node 3 at 6-8
  toy.op("relu.default", {ToyGraph::ref(second)}, {2, 8});  // node 4 at 9-11
  EXPECT_THAT(held(a), UnorderedElementsAre("value 1-3", "read 2.0 3-11"));
  EXPECT_THAT(held(first), UnorderedElementsAre("read 3.0 if moved 6-8"));
  EXPECT_THAT(held(second), UnorderedElementsAre("read 4.0 if moved 9-11"));
}

/// x -> a -> b, and in the backward g = f(b, a): node 1 at 0-2, 2 at 3-5, 3 at 6-9.
struct TwoPhases {
  explicit TwoPhases(ToyGraph& toy) {
    x = toy.input(Role::kParameter, "x", {8});
    a = toy.op("relu.default", {ToyGraph::ref(x)}, {8});
    b = toy.op("relu.default", {ToyGraph::ref(a)}, {8});
    toy.phase = Phase::kBackward;
    g = toy.op("threshold_backward.default", {ToyGraph::ref(b), ToyGraph::ref(a), {std::int64_t{0}}}, {8});
    toy.output(g, OutputRole::kGradient, x);
  }
  ValueRef x, a, b, g;
};

TEST_F(HoldingsTest, an_activation_is_held_until_the_backward_read_it) {
  const TwoPhases graph(toy);
  // The backward reads it at 7; the forward's reader is done at 4.
  EXPECT_THAT(held(graph.a), UnorderedElementsAre("value 1-7", "read 2.0 if moved 3-5", "read 3.1 7-9"));
}

TEST_F(HoldingsTest, what_is_saved_stands_between_the_last_reader_of_the_forward_and_the_backward) {
  ToyGraph& graph = toy;
  const ValueRef x = graph.input(Role::kParameter, "x", {8});
  const ValueRef a = graph.op("relu.default", {ToyGraph::ref(x)}, {8});  // node 1 at 0-2
  const ValueRef b = graph.op("relu.default", {ToyGraph::ref(a)}, {8});  // node 2 at 3-5
  graph.op("relu.default", {ToyGraph::ref(b)}, {8});                     // node 3 at 6-8
  graph.phase = Phase::kBackward;
  const ValueRef g = graph.op("relu.default", {ToyGraph::ref(b)}, {8});  // node 4 at 9-11
  graph.op("threshold_backward.default", {ToyGraph::ref(g), ToyGraph::ref(a), {std::int64_t{0}}}, {8});  // at 12-15
  // a is done in the forward when b ran, at 4: what is saved of it is made at 5, and gathered at 13.
  EXPECT_THAT(held(a, {a}), UnorderedElementsAre("value 1-5", "read 2.0 if moved 3-5", "saved 5-13", "read 5.1 13-15"));
  EXPECT_THAT(made(a, {a}), UnorderedElementsAre("read 2.0 3-4", "saved freeing 5-6", "read 5.1 freeing 13-14"));
  const std::vector<PhaseUses> uses = collect_uses(graph.graph);
  const std::vector<engine::Span> spans = saved_spans(graph.graph, Timeline::of(graph.graph), uses);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    engine::Span expected;
    if (uses[i].phase == Phase::kBackward && uses[i].value == a)
      expected = {5, 14};  // at 13 the reader gets its own of what is saved
    if (uses[i].phase == Phase::kBackward && uses[i].value == b) expected = {};  // read again at once
    EXPECT_EQ(spans[i], expected) << i;
  }
}

TEST_F(HoldingsTest, a_gradient_is_held_from_its_making_to_the_optimizers_step) {
  const TwoPhases graph(toy);
  toy.op("relu.default", {ToyGraph::ref(graph.b)}, {8});  // at 10-12
  // Made at 8, where its parameter is from 9 on.
  EXPECT_THAT(held(graph.g), UnorderedElementsAre("value 8-9", "output 0 9-14"));
  EXPECT_THAT(held(graph.x), UnorderedElementsAre("value 0-14", "read 1.0 if moved 0-2"));
}

}  // namespace
}  // namespace autopar::partition
