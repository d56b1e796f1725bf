#include <cstdint>
#include <optional>
#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// New tensors. One value everywhere can be made in any piece; zeros are also a pending sum. Where a size is given as
/// a literal, the program that runs the plan makes it the local one.
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;

bool is_zero(const Node& node, std::size_t position, std::string_view name) {
  return number_arg(node, position, name) == 0.0;
}

/// Contents that depend on the position.
Strategies whole(const Graph&, const Node& node) { return {replicated(node)}; }

/// Sizes are an argument; a tensor argument only lends its dtype. Were it cut along one dim and the output along
/// another, the pairs would square the number of strategies; the output can be made whole instead and cut without
/// communication.
Strategies fill(const Graph& graph, const Node& node, bool zero) {
  StrategyList list(graph, node);
  const std::int64_t rank = output_meta(node).rank();
  const auto add_all = [&](const std::vector<Split>& inputs) {
    list.add(inputs, Split::replicate());
    for (std::int64_t dim = 0; dim < rank; ++dim) list.add(inputs, Split::shard(dim));
    if (zero) list.add(inputs, Split::partial());
  };
  add_all(list.replicated_inputs());
  if (node.inputs.empty()) return list.take();

  add_all({Split::partial()});
  for (std::int64_t dim = 0; dim < input_meta(graph, node, 0).rank(); ++dim) {
    list.add({Split::shard(dim)}, Split::replicate());
    list.add({Split::shard(dim)}, Split::shard(dim));
    if (zero) list.add({Split::shard(dim)}, Split::partial());
  }
  return list.take();
}

/// Sizes are those of the tensor argument, so its pieces decide the output's.
Strategies fill_like(const Graph& graph, const Node& node, bool zero) {
  StrategyList list(graph, node);
  for (std::int64_t dim = 0; dim < output_meta(node).rank(); ++dim) list.add({Split::shard(dim)}, Split::shard(dim));
  list.add({Split::partial()}, Split::replicate());
  if (zero) {
    list.add({Split::replicate()}, Split::partial());
    list.add({Split::partial()}, Split::partial());
  }
  return list.take();
}

Strategies zeros(const Graph& graph, const Node& node) { return fill(graph, node, true); }
Strategies constant(const Graph& graph, const Node& node) { return fill(graph, node, false); }
Strategies full(const Graph& graph, const Node& node) { return fill(graph, node, is_zero(node, 1, "fill_value")); }
Strategies new_full(const Graph& graph, const Node& node) { return fill(graph, node, is_zero(node, 2, "fill_value")); }
Strategies scalar(const Graph& graph, const Node& node) { return fill(graph, node, is_zero(node, 0, "s")); }
Strategies zeros_like(const Graph& graph, const Node& node) { return fill_like(graph, node, true); }
Strategies constant_like(const Graph& graph, const Node& node) { return fill_like(graph, node, false); }
Strategies full_like(const Graph& graph, const Node& node) {
  return fill_like(graph, node, is_zero(node, 1, "fill_value"));
}
Strategies fill_scalar(const Graph& graph, const Node& node) {
  return fill_like(graph, node, is_zero(node, 1, "value"));
}

constexpr RuleEntry kRules[] = {
    {"aten.arange.default", whole},
    {"aten.arange.start", whole},
    {"aten.arange.start_step", whole},
    {"aten.empty.memory_format", constant},
    {"aten.empty_like.default", constant_like},
    {"aten.empty_permuted.default", whole},
    {"aten.empty_strided.default", whole},
    {"aten.eye.default", whole},
    {"aten.eye.m", whole},
    {"aten.fill.Scalar", fill_scalar},
    {"aten.full.default", full},
    {"aten.full_like.default", full_like},
    {"aten.linspace.default", whole},
    {"aten.logspace.default", whole},
    {"aten.new_empty.default", constant},
    {"aten.new_empty_strided.default", whole},
    {"aten.new_full.default", new_full},
    {"aten.new_ones.default", constant},
    {"aten.new_zeros.default", zeros},
    {"aten.ones.default", constant},
    {"aten.ones_like.default", constant_like},
    {"aten.scalar_tensor.default", scalar},
    {"aten.tril_indices.default", whole},
    {"aten.triu_indices.default", whole},
    {"aten.zeros.default", zeros},
    {"aten.zeros_like.default", zeros_like},
};

}  // namespace

std::span<const RuleEntry> creation_rules() { return kRules; }

}  // namespace autopar::costs
