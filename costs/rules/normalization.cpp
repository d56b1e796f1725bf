#include <string_view>
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
  for (std::int64_t dim = 0; dim < num_leading; ++dim) {
    std::vector<Split> inputs = list.replicated_inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      // Weights have the normalised dims only, statistics have ones in their place.
      if (input_meta(graph, node, i).rank() == rank) inputs[i] = Split::shard(dim);
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

/// Every tensor has the channels: dim 1 of the input, dim 0 of the others. In training, statistics over batch and
/// positions leave only the channels independent; in evaluation they are given, and all dims are.
StrategyList batch_norm(const Graph& graph, const Node& node, bool training) {
  StrategyList list(graph, node);
  const auto cut = [](const TensorMeta& tensor, std::int64_t dim) {
    if (tensor.rank() > 1) return Split::shard(dim);
    // In evaluation, empty tensors stand for the statistics.
    return dim == 1 && tensor.numel() > 0 ? Split::shard(0) : Split::replicate();
  };
  for (std::int64_t dim = 0; dim < input_meta(graph, node, 0).rank(); ++dim) {
    if (training && dim != 1) continue;
    std::vector<Split> inputs = list.replicated_inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = cut(input_meta(graph, node, i), dim);
    std::vector<Split> outputs = list.replicated_outputs();
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (node.outputs[o]) outputs[o] = cut(*node.outputs[o], dim);
    }
    list.add(std::move(inputs), std::move(outputs));
  }
  return list;
}

/// (input, weight, bias, running mean, running var, training, ...); `no_stats` lacks the running statistics.
Strategies batch_norm_forward(const Graph& graph, const Node& node) {
  return batch_norm(graph, node, bool_arg(node, 5, "training", true)).take();
}
Strategies batch_norm_no_stats(const Graph& graph, const Node& node) {
  return batch_norm(graph, node, bool_arg(node, 3, "training", true)).take();
}
Strategies batch_norm_no_training(const Graph& graph, const Node& node) {
  return batch_norm(graph, node, false).take();
}

/// native_batch_norm_backward(grad_out, input, weight, running mean, running var, saved mean, saved rstd, train, ...)
Strategies batch_norm_backward(const Graph& graph, const Node& node) {
  const bool training = bool_arg(node, 7, "train", true);
  StrategyList list = batch_norm(graph, node, true);
  std::vector<Split> inputs = list.replicated_inputs();
  for (std::int64_t dim = 0; !training && dim < input_meta(graph, node, 0).rank(); ++dim) {
    if (dim == 1) continue;
    inputs[0] = inputs[1] = Split::shard(dim);
    list.add(inputs, {Split::shard(dim), Split::partial(), Split::partial()});
  }
  inputs = list.replicated_inputs();
  inputs[0] = Split::partial();
  list.add(std::move(inputs), Split::partial());
  return list.take();
}

/// Normalises groups of channels of each sample.
struct GroupNorm {
  std::size_t group_at = 0;  ///< position of the number of groups
  bool backward = false;
  std::string_view program;
};

Strategies group_norm(const Graph& graph, const Node& node, const GroupNorm& signature) {
  StrategyList list(graph, node);
  const std::int64_t groups = int_arg(node, signature.group_at, "group", 1);
  const Split channels = Split::even_shard(1, groups);
  const Split weights = Split::even_shard(0, groups);
  std::vector<Split> by_sample = list.replicated_inputs();
  std::vector<Split> by_group = list.replicated_inputs();
  for (std::size_t i = 0; i < by_sample.size(); ++i) {
    const bool is_weight = input_meta(graph, node, i).rank() == 1;
    if (!is_weight) by_sample[i] = Split::shard(0);
    by_group[i] = is_weight ? weights : channels;
  }
  if (signature.backward) {
    list.add(by_sample, {Split::shard(0), Split::partial(), Split::partial()});
    list.add(by_group, {channels, weights, weights}, {signature.program});
    std::vector<Split> pending = list.replicated_inputs();
    pending[0] = Split::partial();
    list.add(pending, Split::partial());
  } else {
    list.add(by_sample, Split::shard(0));
    list.add(by_group, {channels, channels, channels}, {signature.program});
  }
  return list.take();
}

/// native_group_norm(input, weight, bias, N, C, HxW, group, eps) -> output, mean and rstd [N, group]
Strategies group_norm_forward(const Graph& graph, const Node& node) {
  return group_norm(graph, node, {6, false, "native_group_norm_local_groups"});
}

/// native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
Strategies group_norm_backward(const Graph& graph, const Node& node) {
  return group_norm(graph, node, {8, true, "native_group_norm_backward_local_groups"});
}

constexpr RuleEntry kRules[] = {
    {"aten._fused_rms_norm.default", norm},
    {"aten._fused_rms_norm_backward.default", rms_norm_backward},
    {"aten._native_batch_norm_legit.no_stats", batch_norm_no_stats},
    {"aten._native_batch_norm_legit_functional.default", batch_norm_forward},
    {"aten._native_batch_norm_legit_no_training.default", batch_norm_no_training},
    {"aten.native_batch_norm.default", batch_norm_forward},
    {"aten.native_batch_norm_backward.default", batch_norm_backward},
    {"aten.native_group_norm.default", group_norm_forward},
    {"aten.native_group_norm_backward.default", group_norm_backward},
    {"aten.native_layer_norm.default", norm},
    {"aten.native_layer_norm_backward.default", layer_norm_backward},
};

}  // namespace

std::span<const RuleEntry> normalization_rules() { return kRules; }

}  // namespace autopar::costs
