#include "partition/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "toy.h"

namespace autopar::partition {
namespace {

using testing::Arg;
using testing::Phase;
using testing::residual_layers;
using testing::Role;
using testing::ToyGraph;
using testing::ValueRef;

TEST(SegmentsTest, layers_hold_their_forward_and_backward) {
  const costs::Graph graph = residual_layers(3);
  const Segments segments = find_segments(graph);
  EXPECT_EQ(segments.count, 5);  // embed, three layers, head
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const costs::Node& node = graph.nodes[i];
    const std::string& path = node.role == Role::kParameter ? node.name : node.module;
    if (path.starts_with("layers.")) {
      EXPECT_EQ(segments.of_node[i], path[7] - '0' + 1) << node.key;
    } else if (path == "embed" || node.name == "x") {
      EXPECT_EQ(segments.of_node[i], 0) << node.key;
    } else if (path == "head" || node.role == Role::kTangent) {
      EXPECT_EQ(segments.of_node[i], 4) << node.key;
    }
  }
}

TEST(SegmentsTest, gradient_sums_without_module_go_with_what_they_add) {
  const costs::Graph graph = residual_layers(3);
  const Segments segments = find_segments(graph);
  std::vector<std::int32_t> sums;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const costs::Node& node = graph.nodes[i];
    if (node.phase == Phase::kBackward && node.op == "aten.add.Tensor") sums.push_back(segments.of_node[i]);
  }
  EXPECT_THAT(sums, ::testing::ElementsAre(3, 2, 1));
}

TEST(SegmentsTest, without_modules_the_parameters_names_tell_the_layers) {
  const costs::Graph with = residual_layers(3);
  costs::Graph without = with;
  for (costs::Node& node : without.nodes) node.module.clear();
  const Segments segments = find_segments(without);
  const Segments expected = find_segments(with);
  for (std::size_t i = 0; i < with.nodes.size(); ++i) {
    // The head has no parameter that would set it apart from the last layer.
    EXPECT_EQ(segments.of_node[i], std::min(expected.of_node[i], 3)) << with.nodes[i].key;
  }
}

TEST(SegmentsTest, stacks_follow_one_another_with_gaps_of_their_own) {
  ToyGraph toy;
  ValueRef x = toy.input(Role::kInput, "x", {8, 8});
  std::vector<std::string> modules = {
      "encoder.block.0",       "encoder.block.1", "encoder.norm",          "decoder.embed",
      "decoder.block.0.cross", "decoder",         "decoder.block.1.cross", "head"};
  for (const std::string& module : modules) {
    toy.module = module;
    x = toy.op("relu.default", {ToyGraph::ref(x)}, {8, 8});
  }
  const Segments segments = find_segments(toy.graph);
  // x; two layers; the gap; two layers, of which the first takes what runs between them; the head.
  EXPECT_THAT(segments.of_node, ::testing::ElementsAre(0, 0, 1, 2, 2, 3, 3, 4, 5));
  EXPECT_EQ(segments.count, 6);
}

TEST(SegmentsTest, a_graph_of_inputs_only_is_one_segment) {
  ToyGraph toy;
  toy.input(Role::kInput, "x", {8});
  EXPECT_EQ(find_segments(toy.graph).count, 1);
  EXPECT_THAT(find_segments(toy.graph).of_node, ::testing::ElementsAre(0));
}

}  // namespace
}  // namespace autopar::partition
