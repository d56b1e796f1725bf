#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Normalisations. The dims in front of the normalised ones are independent of each other; gradients of weight and bias
/// sum over them.
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;

/// Cuts a dim in front of the normalised ones: of the tensors that have the input's leading dims. Weights are whole.
void add_leading(StrategyList& list, const Graph& graph, const Node& node, std::size_t input, std::int64_t num_leading,
                 std::size_t num_weight_gradients) {
  const std::int64_t rank = input_meta(graph, node, input).rank();
  const auto has_leading = [&](const TensorMeta& tensor) {
    return tensor.rank() == rank && tensor.rank() > rank - num_leading;
  };
  for (std::int64_t dim = 0; dim < num_leading; ++dim) {
    std::vector<Split> inputs = list.replicated_inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (has_leading(input_meta(graph, node, i))) inputs[i] = Split::shard(dim);
    }
    std::vector<Split> outputs = list.replicated_outputs();
    const std::size_t first_weight = outputs.size() - num_weight_gradients;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      outputs[o] = o >= first_weight ? Split::partial() : Split::shard(dim);
    }
    list.add(std::move(inputs), std::move(outputs));
  }
}

std::int64_t num_leading(const Graph& graph, const Node& node, std::size_t input, std::size_t shape_at) {
  const auto normalized = static_cast<std::int64_t>(ints_arg(node, shape_at, "normalized_shape").size());
  const std::int64_t rank = input_meta(graph, node, input).rank();
  // A weight of the input's own rank (nothing in front) could not be told from the input.
  require(normalized >= 1 && normalized <= rank, node, "normalized_shape must have between one and all dims");
  return rank - normalized;
}

/// layer_norm(input, normalized_shape, ...) and rms_norm alike: all outputs have the leading dims.
Strategies norm(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  add_leading(list, graph, node, 0, num_leading(graph, node, 0, 1), 0);
  return list.take();
}

/// (grad_out, input, normalized_shape, statistics..., weight, ...): linear in grad_out.
Strategies norm_backward(const Graph& graph, const Node& node, std::size_t num_weight_gradients) {
  StrategyList list(graph, node);
  add_leading(list, graph, node, 1, num_leading(graph, node, 1, 2), num_weight_gradients);
  std::vector<Split> inputs = list.replicated_inputs();
  inputs[0] = Split::partial();
  list.add(std::move(inputs), Split::partial());
  return list.take();
}

Strategies layer_norm_backward(const Graph& graph, const Node& node) { return norm_backward(graph, node, 2); }
Strategies rms_norm_backward(const Graph& graph, const Node& node) { return norm_backward(graph, node, 1); }

/// Statistics over batch and positions: only channels are independent, and every tensor has them (dim 1 of the input,
/// dim 0 of the others).
Strategies batch_norm(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const auto split = [](const TensorMeta& tensor) { return Split::shard(tensor.rank() == 1 ? 0 : 1); };
  std::vector<Split> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(split(input_meta(graph, node, i)));
  std::vector<Split> outputs;
  for (const auto& output : node.outputs) outputs.push_back(output ? split(*output) : Split::replicate());
  list.add(std::move(inputs), std::move(outputs));
  return list.take();
}

constexpr RuleEntry kRules[] = {
    {"aten._fused_rms_norm.default", norm},
    {"aten._fused_rms_norm_backward.default", rms_norm_backward},
    {"aten._native_batch_norm_legit.no_stats", batch_norm},
    {"aten._native_batch_norm_legit_functional.default", batch_norm},
    {"aten.native_batch_norm.default", batch_norm},
    {"aten.native_batch_norm_backward.default", batch_norm},
    {"aten.native_layer_norm.default", norm},
    {"aten.native_layer_norm_backward.default", layer_norm_backward},
};

}  // namespace

std::span<const RuleEntry> normalization_rules() { return kRules; }

}  // namespace autopar::costs
