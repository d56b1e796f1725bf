#include "partition/uses.h"

#include <cstddef>
#include <utility>

namespace autopar::partition {
namespace {

using costs::Graph;
using costs::GraphOutput;
using costs::Node;
using costs::OutputRole;
using costs::Phase;
using costs::Role;

costs::Phase output_phase(const Graph& graph, const GraphOutput& output) {
  const Node& producer = graph.nodes[static_cast<std::size_t>(output.value.node)];
  if (output.role == OutputRole::kGradient) return Phase::kBackward;
  return producer.role == Role::kNone ? producer.phase : Phase::kForward;
}

}  // namespace

std::vector<PhaseUses> collect_uses(const Graph& graph) {
  std::vector<std::size_t> first_value;  // per node: index of its output 0 among all values
  std::vector<PhaseUses> all;            // two per value
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    first_value.push_back(all.size() / 2);
    for (std::size_t o = 0; o < graph.nodes[i].outputs.size(); ++o) {
      const costs::ValueRef value{static_cast<std::int32_t>(i), static_cast<std::int32_t>(o)};
      all.push_back({value, Phase::kForward, {}});
      all.push_back({value, Phase::kBackward, {}});
    }
  }
  const auto uses_of = [&](costs::ValueRef value, Phase phase) -> std::vector<Redistribution::Use>& {
    const std::size_t index =
        first_value[static_cast<std::size_t>(value.node)] + static_cast<std::size_t>(value.output);
    return all[2 * index + (phase == Phase::kBackward ? 1 : 0)].uses;
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (std::size_t input = 0; input < node.inputs.size(); ++input) {
      uses_of(node.inputs[input], node.phase)
          .push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(input)});
    }
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const GraphOutput& output = graph.outputs[i];
    uses_of(output.value, output_phase(graph, output)).push_back({static_cast<std::int32_t>(i), -1});
  }
  std::vector<PhaseUses> used;
  for (PhaseUses& uses : all) {
    if (!uses.uses.empty()) used.push_back(std::move(uses));
  }
  return used;
}

UsesOfValues uses_of_values(const std::vector<PhaseUses>& uses) {
  UsesOfValues of_values;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    UsesOfValue& own = of_values[{uses[i].value.node, uses[i].value.output}];
    (uses[i].phase == Phase::kForward ? own.forward : own.backward) = static_cast<std::int32_t>(i);
  }
  return of_values;
}

}  // namespace autopar::partition
