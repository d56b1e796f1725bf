#include "partition/windows.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "costs/views.h"
#include "engine/index.h"
#include "partition/segments.h"

namespace autopar::partition {
namespace {

using costs::Graph;
using costs::Node;
using costs::Phase;
using costs::Role;

using engine::ix;

bool is_cast_or_view(const Node& node) { return costs::is_view(node.op) || node.op == "aten._to_copy.default"; }

/// Finds which values are there from the start of the step, and which only gradients are made of.
class DataFlow {
 public:
  DataFlow(const Graph& graph, const std::vector<PhaseUses>& uses) : graph_(graph), is_given_(graph.nodes.size(), 0) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      const auto given = [&](const costs::ValueRef& input) { return is_given_[ix(input.node)] != 0; };
      is_given_[i] = node.role == Role::kNone
                         ? is_cast_or_view(node) && std::all_of(node.inputs.begin(), node.inputs.end(), given)
                         : node.role != Role::kTangent;
    }
    find_gradients(uses);
  }

  /// Made of graph inputs alone.
  bool is_given(std::int32_t node) const { return is_given_[ix(node)] != 0; }
  /// Read by nothing but what hands gradients out.
  bool is_for_gradients(const PhaseUses& uses) const {
    return std::all_of(uses.uses.begin(), uses.uses.end(), [&](const Redistribution::Use& use) {
      if (use.input < 0) return graph_.outputs[ix(use.node)].role == costs::OutputRole::kGradient;
      return makes_gradient_[ix(use.node)] != 0;
    });
  }

 private:
  void find_gradients(const std::vector<PhaseUses>& uses) {
    std::map<std::int32_t, std::vector<const PhaseUses*>> of_node;
    for (const PhaseUses& one : uses) of_node[one.value.node].push_back(&one);
    makes_gradient_.assign(graph_.nodes.size(), 0);
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      if (node.phase != Phase::kBackward || node.role != Role::kNone || !is_cast_or_view(node)) continue;
      const auto& read = of_node[static_cast<std::int32_t>(i)];
      makes_gradient_[i] = !read.empty() && std::all_of(read.begin(), read.end(),
                                                        [&](const PhaseUses* one) { return is_for_gradients(*one); });
    }
  }

  const Graph& graph_;
  std::vector<char> is_given_;        // per node
  std::vector<char> makes_gradient_;  // per node
};

}  // namespace

Windows::Windows(const Graph& graph, const std::vector<PhaseUses>& uses) {
  const Segments segments = find_segments(graph);
  count_ = 2 * segments.count;
  first_node_.assign(ix(count_), -1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const std::int32_t segment = segments.of_node[i];
    of_node_.push_back(node.role != Role::kNone ? -1 : node.phase == Phase::kForward ? segment : count_ - 1 - segment);
    if (of_node_[i] >= 0 && first_node_[ix(of_node_[i])] < 0) first_node_[ix(of_node_[i])] = static_cast<int>(i);
  }
  const DataFlow flow(graph, uses);
  std::map<std::pair<std::int32_t, bool>, std::int64_t> num_in;  // of (window, is prefetch)
  for (const PhaseUses& one : uses) {
    const bool is_given = flow.is_given(one.value.node);
    is_prefetch_.push_back(is_given ? 1 : 0);
    flights_.push_back(find_flight(graph, one, is_given, flow.is_for_gradients(one)));
    if (flights_.back().exists()) ++num_in[{hides_in(flights_.back()), is_given}];
  }
  needed_at_.assign(graph.nodes.size(), -1);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::pair kind{hides_in(flights_[i]), is_prefetch_[i] != 0};
    num_beside_.push_back(flights_[i].exists() ? num_in[kind] : 0);
  }
  const UsesOfValues of_values = uses_of_values(uses);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (node.role != Role::kNone || !flow.is_given(static_cast<std::int32_t>(i))) continue;
    std::int32_t& needed = needed_at_[i];
    const auto need = [&](std::int32_t at) {
      if (at >= 0 && at < static_cast<std::int32_t>(i) && (needed < 0 || at < needed)) needed = at;
    };
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const auto found = of_values.find({static_cast<std::int32_t>(i), static_cast<std::int32_t>(o)});
      const std::int32_t entry = found == of_values.end() ? -1 : found->second.in(node.phase);
      if (entry < 0) continue;
      need(flights_[ix(entry)].start);
      for (const Redistribution::Use& use : uses[ix(entry)].uses) {
        if (use.input >= 0) need(needed_at_[ix(use.node)]);
      }
    }
  }
}

std::optional<Windows> find_windows(const Problem& problem, const std::vector<PhaseUses>& uses) {
  if (!problem.has_overlap) return {};
  return Windows(problem.graph, uses);
}

Flight Windows::find_flight(const Graph& graph, const PhaseUses& uses, bool is_given, bool is_for_gradients) const {
  const auto first_of = [&](std::int32_t window, Phase phase) {
    const bool exists = window >= 0 && window < count_ && (window >= count_ / 2) == (phase == Phase::kBackward);
    return exists ? first_node_[ix(window)] : -1;
  };
  const auto reads = [](const Redistribution::Use& use) { return use.input >= 0; };
  const auto reader = std::find_if(uses.uses.begin(), uses.uses.end(), reads);
  if (is_given && reader != uses.uses.end() && std::all_of(uses.uses.begin(), uses.uses.end(), reads)) {
    const std::int32_t start = first_of(of_node(reader->node) - 1, uses.phase);
    return start >= 0 && start < reader->node ? Flight{start, reader->node} : Flight{};
  }
  const std::int32_t made_in = of_node(uses.value.node);
  if (!is_for_gradients || made_in < 0 || graph.nodes[ix(uses.value.node)].phase != Phase::kBackward) return {};
  const std::int32_t start = first_of(made_in + 1, Phase::kBackward);
  if (start <= uses.value.node) return {};
  const std::int32_t finish = first_of(made_in + 2, Phase::kBackward);
  return {start, finish > start ? finish : -1};
}

}  // namespace autopar::partition
