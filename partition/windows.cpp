#include "partition/windows.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "costs/dtype.h"
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

/// Finds which values are there from the start of the step, and which only gradients are made of.
class DataFlow {
 public:
  DataFlow(const Graph& graph, const std::vector<PhaseUses>& uses) : graph_(graph), is_given_(given_nodes(graph)) {
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
      if (node.phase != Phase::kBackward || node.role != Role::kNone || !costs::is_cast_or_view(node.op)) continue;
      const auto& read = of_node[static_cast<std::int32_t>(i)];
      makes_gradient_[i] = !read.empty() && std::all_of(read.begin(), read.end(),
                                                        [&](const PhaseUses* one) { return is_for_gradients(*one); });
    }
  }

  const Graph& graph_;
  std::vector<char> is_given_;        // per node
  std::vector<char> makes_gradient_;  // per node
};

bool is_pinned_as_sum(const Problem& problem, std::int32_t node) {
  if (problem.pins.nodes.empty()) return false;
  const auto& pin = problem.pins.nodes[ix(node)].at;
  return std::any_of(pin.begin(), pin.end(), [](const auto& one) { return one && one->is_partial(); });
}

/// The flights of values that are cast or viewed into one another start together, though each needs the one before.
std::vector<Flight> one_of_each_chain(const Problem& problem, const std::vector<PhaseUses>& uses,
                                      const std::vector<char>& is_prefetch, const std::vector<Flight>& flights) {
  const Graph& graph = problem.graph;
  const UsesOfValues of_values = uses_of_values(uses);
  // The earlier the better: pinned sums before narrow values before wide ones.
  constexpr int kNone = 1000;
  const auto rank = [&](std::size_t entry) {
    if (!flights[entry].exists()) return kNone;
    if (is_prefetch[entry] == 0 && is_pinned_as_sum(problem, uses[entry].value.node)) return 0;
    return static_cast<int>(costs::dtype_bytes(graph.meta(uses[entry].value).dtype));
  };
  // Per entry, the one before it in its chain: of what its value is a cast or view of, in the same phase.
  std::vector<std::int32_t> before(uses.size(), -1);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Node& node = graph.nodes[ix(uses[i].value.node)];
    if (node.role != Role::kNone || node.phase != uses[i].phase || !costs::is_cast_or_view(node.op) ||
        node.inputs.empty())
      continue;
    const std::int32_t entry = of_values.at({node.inputs[0].node, node.inputs[0].output}).in(node.phase);
    if (flights[ix(entry)].exists() && is_prefetch[ix(entry)] == is_prefetch[i]) before[i] = entry;
  }
  std::vector<int> best_before(uses.size(), kNone);
  std::vector<int> best_behind(uses.size(), kNone);
  // Values stand in the order of nodes, so what is before comes first.
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (before[i] >= 0) best_before[i] = std::min(best_before[ix(before[i])], rank(ix(before[i])));
  }
  for (std::size_t i = uses.size(); i-- > 0;) {
    if (before[i] < 0) continue;
    int& behind = best_behind[ix(before[i])];
    behind = std::min({behind, best_behind[i], rank(i)});
  }
  std::vector<Flight> kept(flights.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const bool is_last_pinned = rank(i) == 0 && best_behind[i] > 0;
    const bool is_first_best = rank(i) > 0 && rank(i) < best_before[i] && rank(i) <= best_behind[i];
    if (is_last_pinned || is_first_best) kept[i] = flights[i];
  }
  return kept;
}

/// Per node, Windows::needed_at().
std::vector<std::int32_t> find_needed(const Graph& graph, const std::vector<PhaseUses>& uses, const DataFlow& flow,
                                      const std::vector<Flight>& flights) {
  const UsesOfValues of_values = uses_of_values(uses);
  std::vector<std::int32_t> needed_at(graph.nodes.size(), -1);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (node.role != Role::kNone || !flow.is_given(static_cast<std::int32_t>(i))) continue;
    std::int32_t& needed = needed_at[i];
    const auto need = [&](std::int32_t at) {
      if (at >= 0 && at < static_cast<std::int32_t>(i) && (needed < 0 || at < needed)) needed = at;
    };
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const auto found = of_values.find({static_cast<std::int32_t>(i), static_cast<std::int32_t>(o)});
      const std::int32_t entry = found == of_values.end() ? -1 : found->second.in(node.phase);
      if (entry < 0) continue;
      need(flights[ix(entry)].start);
      for (const Redistribution::Use& use : uses[ix(entry)].uses) {
        if (use.input >= 0) need(needed_at[ix(use.node)]);
      }
    }
  }
  return needed_at;
}

}  // namespace

Windows::Windows(const Problem& problem, const std::vector<PhaseUses>& uses) {
  const Graph& graph = problem.graph;
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
  for (const PhaseUses& one : uses) {
    is_prefetch_.push_back(flow.is_given(one.value.node) ? 1 : 0);
    flights_.push_back(find_flight(graph, one, is_prefetch_.back() != 0, flow.is_for_gradients(one)));
  }
  flights_ = one_of_each_chain(problem, uses, is_prefetch_, flights_);
  std::map<std::pair<std::int32_t, char>, std::int64_t> num_in;  // of (window, is prefetch)
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (flights_[i].exists()) ++num_in[{hides_in(flights_[i]), is_prefetch_[i]}];
  }
  for (std::size_t i = 0; i < uses.size(); ++i) {
    num_beside_.push_back(flights_[i].exists() ? num_in[{hides_in(flights_[i]), is_prefetch_[i]}] : 0);
  }
  needed_at_ = find_needed(graph, uses, flow, flights_);
}

std::optional<Windows> find_windows(const Problem& problem, const std::vector<PhaseUses>& uses) {
  if (!problem.has_overlap) return {};
  return Windows(problem, uses);
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
