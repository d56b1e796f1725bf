#include "launch/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "launch/field_words.h"
#include "launch/fold_names.h"

namespace autopar::launch {
namespace {

using costs::Node;
using costs::Placement;
using costs::Role;
using Kind = costs::RedistributeStep::Kind;

std::string join_some(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  const std::size_t shown = std::min(kMost, names.size());
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

class Explainer {
 public:
  Explainer(const partition::Problem& problem, const partition::Plan& plan, int mesh_dim)
      : graph_(problem.graph), plan_(plan), mesh_dim_(mesh_dim) {
    find_weights();
    by_rows_ = find_by_rows();
  }

  std::vector<std::string> explain() {
    add_matmuls();
    add_placed("attention", is_attention, kAttentionDims);
    add_placed("norms", is_norm, {});
    add_inputs();
    add_parameters();
    add_gradients();
    return std::move(sentences_);
  }

 private:
  Placement at(const costs::Placements& placements) const { return placements[mesh_dim_]; }
  const partition::NodeChoice& choice(std::size_t node) const { return plan_.nodes[node]; }
  const Node& node(std::int32_t index) const { return graph_.nodes[static_cast<std::size_t>(index)]; }

  void find_weights() {
    weight_of_.assign(graph_.nodes.size(), -1);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& here = graph_.nodes[i];
      if (here.role == Role::kParameter) weight_of_[i] = static_cast<std::int32_t>(i);
      if (!here.inputs.empty() && passes_weight(here.op)) weight_of_[i] = weight_of(here.inputs[0]);
    }
  }

  /// The parameter that `value` is a view or copy of; -1 if it is none.
  std::int32_t weight_of(costs::ValueRef value) const { return weight_of_[static_cast<std::size_t>(value.node)]; }

  std::string_view find_by_rows() const {
    bool batch = false;
    bool sequence = false;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].role != Role::kInput) continue;
      const Placement placement = at(choice(i).outputs[0]);
      batch = batch || (placement.is_shard() && placement.dim() == 0);
      sequence = sequence || (placement.is_shard() && placement.dim() == 1);
    }
    return rows_word(batch, sequence);
  }

  void add_matmuls() {
    std::map<std::string_view, std::vector<std::string>> modules;  // by kind, in order of appearance
    std::map<std::pair<std::string_view, std::string>, int> counts;
    std::map<std::string, int> totals;
    int num_matmuls = 0;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const std::string_view kind = weight_matmul_kind(i);
      if (kind.empty()) continue;
      const std::string name = short_module(graph_.nodes[i].module);
      ++num_matmuls;
      ++totals[name];
      if (++counts[{kind, name}] == 1) modules[kind].push_back(name);
    }
    for (auto& [kind, names] : modules) {
      if (modules.size() == 1) {
        sentences_.push_back(fmt::format("all {} weight matmuls {}", num_matmuls, kind));
        continue;
      }
      for (std::string& name : names) {
        const int count = counts[{kind, name}];
        if (count < totals[name]) name = fmt::format("{} ({} of {})", name, count, totals[name]);
      }
      sentences_.push_back(fmt::format("{}: {}", kind, join_some(names)));
    }
  }

  /// How node `i` runs if it is a forward matmul of activations with a weight; empty if it is not.
  std::string_view weight_matmul_kind(std::size_t i) const {
    const Node& here = graph_.nodes[i];
    const std::optional<Factors> pair = factors(here.op, here.inputs.size());
    if (here.phase != costs::Phase::kForward || !pair) return {};
    const bool weight_first = weight_of(here.inputs[pair->first]) >= 0;
    const std::size_t weight = weight_first ? pair->first : pair->second;
    if (weight_of(here.inputs[weight]) < 0) return {};
    const std::size_t other = weight_first ? pair->second : pair->first;
    return matmul_kind(at(choice(i).inputs[other]), at(choice(i).inputs[weight]), at(choice(i).outputs[0]), by_rows_);
  }

  /// Where the first outputs of the forward nodes that `wanted` picks are cut; `dims` names their first tensor dims.
  void add_placed(std::string_view what, bool wanted(std::string_view op), std::span<const std::string_view> dims) {
    std::map<Placement, std::int64_t> counts;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& here = graph_.nodes[i];
      if (here.phase == costs::Phase::kForward && wanted(here.op)) ++counts[at(choice(i).outputs[0])];
    }
    std::vector<std::string> parts;
    for (const auto& [placement, count] : counts) {
      const std::string how = placed_word(placement, dims);
      parts.push_back(counts.size() == 1 ? how : fmt::format("{} {}", count, how));
    }
    if (!parts.empty()) sentences_.push_back(fmt::format("{} {}", what, fmt::join(parts, ", ")));
  }

  void add_inputs() {
    std::vector<NamedFacts> inputs;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].role != Role::kInput) continue;
      const Placement placement = at(choice(i).outputs[0]);
      inputs.push_back({graph_.nodes[i].name,
                        placement.is_shard() ? fmt::format("split along dim {}", placement.dim()) : "replicated"});
    }
    std::vector<std::string> parts;
    for (const FoldedName& input : fold_names(inputs)) parts.push_back(fmt::format("{} {}", input.name, input.facts));
    if (!parts.empty()) sentences_.push_back("inputs: " + join_some(parts));
  }

  void add_parameters() {
    std::int64_t total = 0;
    std::int64_t cut = 0;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].role != Role::kParameter) continue;
      const std::int64_t bytes = graph_.nodes[i].outputs[0]->bytes();
      total += bytes;
      if (at(choice(i).outputs[0]).is_shard()) cut += bytes;
    }
    if (total == 0) return;
    if (cut == 0) {
      sentences_.emplace_back("parameters replicated");
      return;
    }
    std::int64_t gathered = 0;
    std::int64_t kept = 0;
    std::set<std::int32_t> seen;
    for (const partition::Redistribution& move : plan_.redistributions) {
      const std::int32_t weight = weight_of(move.value);
      if (weight < 0 || !has_step(move, Kind::kAllGather)) continue;
      const std::int64_t bytes = node(weight).outputs[0]->bytes();
      if (seen.insert(weight).second) gathered += bytes;
      if (move.is_saved) kept += bytes;
    }
    const auto percent = [&](std::int64_t bytes) {
      return 100.0 * static_cast<double>(bytes) / static_cast<double>(total);
    };
    std::string text = fmt::format("parameters sharded at rest ({:.3g}% of bytes)", percent(cut));
    if (gathered > 0) text += fmt::format(", gathered before use ({:.3g}%)", percent(gathered));
    if (kept > 0) text += fmt::format(", kept for the backward ({:.3g}%)", percent(kept));
    sentences_.push_back(std::move(text));
  }

  void add_gradients() {
    std::int64_t scattered = 0;
    std::int64_t reduced = 0;
    std::set<costs::ValueRef> gradients;
    for (const costs::GraphOutput& output : graph_.outputs) {
      if (output.role == costs::OutputRole::kGradient && node(output.of).role == Role::kParameter) {
        gradients.insert(output.value);
      }
    }
    for (const partition::Redistribution& move : plan_.redistributions) {
      if (gradients.count(move.value) == 0) continue;
      if (has_step(move, Kind::kReduceScatter)) ++scattered;
      if (has_step(move, Kind::kAllReduce)) ++reduced;
    }
    const std::size_t total = gradients.size();
    if (scattered > 0) sentences_.push_back(fmt::format("gradients reduce-scattered ({} of {})", scattered, total));
    if (reduced > 0) sentences_.push_back(fmt::format("gradients all-reduced ({} of {})", reduced, total));
  }

  bool has_step(const partition::Redistribution& move, Kind kind) const {
    return std::any_of(move.steps.begin(), move.steps.end(), [&](const costs::RedistributeStep& step) {
      return step.kind == kind && ((step.mesh_dims >> mesh_dim_) & 1U) != 0;
    });
  }

  const costs::Graph& graph_;
  const partition::Plan& plan_;
  int mesh_dim_;
  std::vector<std::int32_t> weight_of_;  // per node: the parameter that it hands on, or -1
  std::string_view by_rows_;
  std::vector<std::string> sentences_;
};

}  // namespace

std::vector<std::string> explain_mesh_dim(const partition::Problem& problem, const partition::Plan& plan,
                                          int mesh_dim) {
  return Explainer(problem, plan, mesh_dim).explain();
}

}  // namespace autopar::launch
