#include "partition/uses.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "costs/views.h"

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

std::vector<char> given_nodes(const Graph& graph) {
  std::vector<char> is_given(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const auto given = [&](const costs::ValueRef& input) {
      return is_given[static_cast<std::size_t>(input.node)] != 0;
    };
    is_given[i] = node.role == Role::kNone
                      ? costs::is_cast_or_view(node.op) && std::all_of(node.inputs.begin(), node.inputs.end(), given)
                      : node.role != Role::kTangent;
  }
  return is_given;
}

std::vector<char> may_be_kept(const Graph& graph, const std::vector<PhaseUses>& uses) {
  const std::vector<char> is_given = given_nodes(graph);
  const auto is_read_by_nodes = [](const PhaseUses& one) {
    return std::all_of(one.uses.begin(), one.uses.end(), [](const Redistribution::Use& use) { return use.input >= 0; });
  };
  std::vector<char> may(uses.size(), 0);
  for (std::size_t i = 0; i + 1 < uses.size(); ++i) {
    if (uses[i].value != uses[i + 1].value || is_given[static_cast<std::size_t>(uses[i].value.node)] == 0) continue;
    if (is_read_by_nodes(uses[i]) && is_read_by_nodes(uses[i + 1])) may[i] = may[i + 1] = 1;
  }
  return may;
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
