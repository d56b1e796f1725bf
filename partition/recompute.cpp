#include "partition/recompute.h"

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "costs/rules/rule.h"
#include "costs/views.h"
#include "engine/index.h"
#include "partition/segments.h"

namespace autopar::partition {
namespace {

using costs::Arg;
using costs::Graph;
using costs::Node;
using costs::Phase;
using costs::Role;

using engine::ix;

bool is_forward_op(const Node& node) { return node.role == Role::kNone && node.phase == Phase::kForward; }

class Repeater {
 public:
  Repeater(const Problem& problem, const std::vector<char>& which, bool reads_again)
      : old_(problem.graph), old_pins_(problem.pins.nodes), which_(which), reads_again_(reads_again) {
    result_.problem = problem;
    result_.problem.graph.nodes.clear();
    result_.problem.pins.nodes.clear();
    result_.index_of.assign(old_.nodes.size(), -1);
    result_.again_of.assign(old_.nodes.size(), -1);
    for (std::size_t i = 0; i < old_.nodes.size(); ++i) {
      if (old_.nodes[i].phase == Phase::kBackward) by_key_.emplace(old_.nodes[i].key, static_cast<std::int32_t>(i));
    }
  }

  RepeatedProblem run() {
    for (std::size_t i = 0; i < old_.nodes.size(); ++i) keep(static_cast<std::int32_t>(i));
    for (costs::GraphOutput& output : result_.problem.graph.outputs) {
      output.value.node = result_.index_of[ix(output.value.node)];
      if (output.of >= 0) output.of = result_.index_of[ix(output.of)];
    }
    return std::move(result_);
  }

 private:
  bool is_view(std::int32_t node) const {
    return is_forward_op(old_.nodes[ix(node)]) && costs::is_view(old_.nodes[ix(node)].op);
  }
  bool is_wanted(std::int32_t node) const { return which_[ix(node)] != 0; }

  /// Takes over an old node, behind what runs again for it.
  void keep(std::int32_t index) {
    if (result_.index_of[ix(index)] >= 0) return;
    const Node& node = old_.nodes[ix(index)];
    if (node.role == Role::kNone && node.phase == Phase::kBackward) {
      for (const costs::ValueRef& input : node.inputs) {
        if (is_wanted(input.node)) make(input.node);
        keep(input.node);  // a view that is taken over early may be of another one
      }
    }
    Node copy = node;
    rename(copy, node.phase == Phase::kBackward && reads_again_, false);
    if (copy.same_strategy_as >= 0) copy.same_strategy_as = result_.index_of[ix(copy.same_strategy_as)];
    result_.index_of[ix(index)] = add(std::move(copy), old_pins_.empty() ? Pin{} : old_pins_[ix(index)], false);
  }

  void make(std::int32_t index) {
    if (result_.again_of[ix(index)] >= 0) return;
    const Node& node = old_.nodes[ix(index)];
    // A view may be there already, but too late.
    const auto known = by_key_.find(node.key + kAgain);
    if (known != by_key_.end()) {
      keep(known->second);
      result_.again_of[ix(index)] = result_.index_of[ix(known->second)];
      return;
    }
    for (const costs::ValueRef& input : node.inputs) {
      if (is_wanted(input.node) || is_view(input.node)) make(input.node);
    }
    Node copy = node;
    copy.key += kAgain;
    copy.phase = Phase::kBackward;
    copy.fusion.is_written = copy.fusion.is_written_again;
    rename(copy, reads_again_, true);
    result_.again_of[ix(index)] = add(std::move(copy), {}, true);
  }

  std::int32_t add(Node node, Pin pin, bool is_optional) {
    std::vector<Node>& nodes = result_.problem.graph.nodes;
    const auto index = static_cast<std::int32_t>(nodes.size());
    nodes.push_back(std::move(node));
    if (!old_pins_.empty()) result_.problem.pins.nodes.push_back(std::move(pin));
    result_.is_optional.push_back(is_optional ? 1 : 0);
    return index;
  }

  /// Lets `node` read new nodes; those that run again instead of `which` or of views, if asked.
  void rename(Node& node, bool instead_of_wanted, bool instead_of_views) const {
    for (Arg& arg : node.args) rename(arg, instead_of_wanted, instead_of_views);
    for (auto& [name, arg] : node.kwargs) rename(arg, instead_of_wanted, instead_of_views);
    node.inputs.clear();
    costs::collect_inputs(node);
  }

  void rename(Arg& arg, bool instead_of_wanted, bool instead_of_views) const {
    if (auto* ref = std::get_if<costs::ValueRef>(&arg.value)) {
      const std::int32_t old = ref->node;
      const bool again = (instead_of_wanted && is_wanted(old)) || (instead_of_views && is_view(old));
      ref->node = again ? result_.again_of[ix(old)] : result_.index_of[ix(old)];
    } else if (auto* list = std::get_if<Arg::List>(&arg.value)) {
      for (Arg& item : *list) rename(item, instead_of_wanted, instead_of_views);
    }
  }

  const Graph& old_;
  const std::vector<Pin>& old_pins_;  // empty: none
  const std::vector<char>& which_;
  bool reads_again_;
  std::unordered_map<std::string_view, std::int32_t> by_key_;
  RepeatedProblem result_;
};

}  // namespace

std::vector<char> repeatable_nodes(const Graph& graph) {
  const Segments segments = find_segments(graph);
  // What leaves its segment, or is handed out; a view passes on what it is made from.
  std::vector<char> leaves(graph.nodes.size(), 0);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (!is_forward_op(node)) continue;
    for (const costs::ValueRef& input : node.inputs) {
      const bool is_passed_on = costs::is_view(node.op) && leaves[i] != 0;
      if (is_passed_on || segments.of_node[ix(input.node)] != segments.of_node[i]) leaves[ix(input.node)] = 1;
    }
  }
  for (const costs::GraphOutput& output : graph.outputs) leaves[ix(output.value.node)] = 1;
  std::vector<char> may_repeat;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool may = leaves[i] == 0 && is_forward_op(node) && !costs::is_view(node.op) &&
                     !node.op.starts_with("autopar.") && !costs::draws_random_numbers(node);
    may_repeat.push_back(may ? 1 : 0);
  }
  return may_repeat;
}

RepeatedProblem with_repeated(const Problem& problem, const std::vector<char>& which, bool reads_again) {
  return Repeater(problem, which, reads_again).run();
}

}  // namespace autopar::partition
