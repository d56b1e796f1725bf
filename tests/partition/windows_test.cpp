#include "partition/windows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "toy.h"

namespace autopar::partition {
namespace {

using costs::Phase;
using costs::ValueRef;
using testing::ToyGraph;

class WindowsTest : public ::testing::Test {
 protected:
  explicit WindowsTest(costs::Graph graph = testing::residual_layers(3))
      : problem_(testing::toy_problem(std::move(graph), {2})), uses_(collect_uses(graph_)), windows_(problem_, uses_) {}

  const Flight& flight(ValueRef value, Phase phase) const {
    const auto entry = std::find_if(uses_.begin(), uses_.end(),
                                    [&](const PhaseUses& one) { return one.value == value && one.phase == phase; });
    return windows_.flight(static_cast<std::int32_t>(entry - uses_.begin()));
  }
  std::int32_t find(const std::string& key_part, std::size_t count = 0) const {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].key.find(key_part) != std::string::npos && count-- == 0) return static_cast<std::int32_t>(i);
    }
    ADD_FAILURE() << "no node " << key_part;
    return -1;
  }
  ValueRef weight(int layer) const { return {find("layers." + std::to_string(layer) + ".weight"), 0}; }

  Problem problem_;
  const costs::Graph& graph_ = problem_.graph;
  std::vector<PhaseUses> uses_;
  Windows windows_;
};

TEST_F(WindowsTest, a_weight_is_gathered_while_the_layer_before_runs) {
  const Flight& of_second = flight(weight(1), Phase::kForward);
  EXPECT_EQ(of_second.start, find("layers.0.mlp/f/mm"));
  EXPECT_EQ(of_second.finish, find("layers.1.mlp/f/mm"));
  EXPECT_EQ(windows_.hides_in(of_second), 1);
  EXPECT_EQ(flight(weight(0), Phase::kForward).start, find("embed/f/relu"));
  // Backward, layers come in reverse.
  const Flight& backward = flight(weight(1), Phase::kBackward);
  EXPECT_EQ(windows_.hides_in(backward), windows_.of_node(find("layers.2.mlp/b/mm")));
}

TEST_F(WindowsTest, a_gradient_is_reduced_while_the_layer_behind_runs) {
  const ValueRef gradient{find("layers.2.mlp/b/mm"), 0};
  const Flight& reduced = flight(gradient, Phase::kBackward);
  ASSERT_TRUE(reduced.exists());
  EXPECT_EQ(windows_.of_node(reduced.start), windows_.of_node(find("layers.1.mlp/b/mm")));
  EXPECT_EQ(windows_.of_node(reduced.finish), windows_.of_node(find("layers.0.mlp/b/mm")));
  // Behind the last layer comes nothing but the embedding's backward, which is empty here.
  EXPECT_FALSE(flight({find("layers.0.mlp/b/mm"), 0}, Phase::kBackward).exists());
}

TEST_F(WindowsTest, activations_are_waited_for) {
  EXPECT_FALSE(flight({find("layers.1.mlp/f/mm"), 0}, Phase::kForward).exists());
  EXPECT_FALSE(flight({find("layers.1.mlp/f/relu"), 0}, Phase::kBackward).exists());
  EXPECT_FALSE(flight({find("layers.1.mlp/b/threshold"), 0}, Phase::kBackward).exists());
}

TEST_F(WindowsTest, every_start_is_behind_what_it_needs_and_before_its_readers) {
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    const Flight& flight = windows_.flight(static_cast<std::int32_t>(i));
    if (!flight.exists()) continue;
    EXPECT_EQ(graph_.nodes[static_cast<std::size_t>(flight.start)].phase, uses_[i].phase);
    EXPECT_TRUE(flight.finish < 0 || flight.finish > flight.start);
    EXPECT_GT(windows_.num_beside(static_cast<std::int32_t>(i)), 0);
    const auto& value = graph_.nodes[static_cast<std::size_t>(uses_[i].value.node)];
    if (value.role == costs::Role::kNone && windows_.needed_at(uses_[i].value.node) < 0) {
      EXPECT_LT(uses_[i].value.node, flight.start);
    }
  }
}

/// Two layers whose weights are cast before they are used.
costs::Graph cast_weights() {
  ToyGraph toy;
  const ValueRef first = toy.input(costs::Role::kParameter, "layers.0.weight", {8, 8}, costs::DType::kFloat32);
  const ValueRef second = toy.input(costs::Role::kParameter, "layers.1.weight", {8, 8}, costs::DType::kFloat32);
  const ValueRef x = toy.input(costs::Role::kInput, "x", {8, 8});
  const auto cast_of = [&](ValueRef weight) {
    const ValueRef narrow = toy.op("_to_copy.default", {ToyGraph::ref(weight)}, {8, 8});
    toy.graph.nodes[static_cast<std::size_t>(narrow.node)].outputs[0]->dtype = costs::DType::kBFloat16;
    return narrow;
  };
  toy.module = "layers.0";
  const ValueRef cast = cast_of(first);
  const ValueRef y = toy.op("mm.default", {ToyGraph::ref(x), ToyGraph::ref(cast)}, {8, 8});
  toy.module = "layers.1";
  const ValueRef other = cast_of(second);
  const ValueRef z = toy.op("mm.default", {ToyGraph::ref(y), ToyGraph::ref(other)}, {8, 8});
  toy.output(toy.op("sum.default", {ToyGraph::ref(z)}, {}), costs::OutputRole::kLoss);
  return std::move(toy.graph);
}

class CastWeightsTest : public WindowsTest {
 protected:
  CastWeightsTest() : WindowsTest(cast_weights()) {}
};

TEST_F(CastWeightsTest, of_a_chain_the_narrow_value_is_gathered) {
  EXPECT_FALSE(flight(weight(1), Phase::kForward).exists());
  EXPECT_TRUE(flight({find("layers.1/f/_to_copy"), 0}, Phase::kForward).exists());
}

TEST_F(CastWeightsTest, a_cast_runs_when_what_it_gives_is_gathered) {
  const std::int32_t start = find("layers.0/f/_to_copy");
  EXPECT_EQ(flight({find("layers.1/f/_to_copy"), 0}, Phase::kForward).start, start);
  EXPECT_EQ(windows_.needed_at(find("layers.1/f/_to_copy")), start);
  EXPECT_EQ(windows_.needed_at(start), -1);
}

/// A gradient that is cast before it is handed out: both values could be reduced while others run.
TEST(WindowsOfSumsTest, of_a_chain_the_value_is_reduced_that_a_pin_wants_as_a_sum) {
  ToyGraph toy;
  const ValueRef weight = toy.input(costs::Role::kParameter, "layers.1.weight", {8, 8}, costs::DType::kFloat32);
  const ValueRef x = toy.input(costs::Role::kInput, "x", {8, 8});
  toy.module = "layers.0";
  const ValueRef first = toy.op("relu.default", {ToyGraph::ref(x)}, {8, 8});
  toy.module = "layers.1";
  const ValueRef y = toy.op("relu.default", {ToyGraph::ref(first)}, {8, 8});
  toy.output(toy.op("sum.default", {ToyGraph::ref(y)}, {}), costs::OutputRole::kLoss);
  toy.phase = Phase::kBackward;
  const ValueRef gradient = toy.op("mm.default", {ToyGraph::ref(y), ToyGraph::ref(x)}, {8, 8});
  const ValueRef wide = toy.op("_to_copy.default", {ToyGraph::ref(gradient)}, {8, 8});
  toy.graph.nodes[static_cast<std::size_t>(wide.node)].outputs[0]->dtype = costs::DType::kFloat32;
  toy.output(wide, costs::OutputRole::kGradient, weight);
  toy.module = "layers.0";
  toy.op("relu.default", {ToyGraph::ref(x)}, {8, 8});
  Problem problem = testing::toy_problem(std::move(toy.graph), {2});
  const std::vector<PhaseUses> uses = collect_uses(problem.graph);
  const auto flies = [&](ValueRef value) {
    const Windows windows(problem, uses);
    const auto entry = std::find_if(uses.begin(), uses.end(), [&](const PhaseUses& one) { return one.value == value; });
    return windows.flight(static_cast<std::int32_t>(entry - uses.begin())).exists();
  };
  EXPECT_TRUE(flies(gradient));
  EXPECT_FALSE(flies(wide));
  problem.pins.nodes.resize(problem.graph.nodes.size());
  problem.pins.nodes[static_cast<std::size_t>(wide.node)].at[0] = costs::Placement::partial();
  EXPECT_FALSE(flies(gradient));
  EXPECT_TRUE(flies(wide));
}

}  // namespace
}  // namespace autopar::partition
