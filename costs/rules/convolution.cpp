#include <optional>
#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Convolutions of [batch, channels, positions...] with [out channels, in channels per group, positions...]
/// (transposed: in and out change places). Batches are independent; output channels too; input channels are contracted.
/// With groups, a group's channels stay together, and the local program takes its own number of groups.
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;

/// Splits of input, weight and (if there is one) bias.
std::vector<Split> inputs_of(const Node& node, Split input, Split weight, Split bias) {
  std::vector<Split> splits{input, weight};
  if (node.inputs.size() > 2) splits.push_back(bias);
  return splits;
}

/// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
Strategies convolution(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t groups = int_arg(node, 8, "groups", 1);
  const bool transposed = bool_arg(node, 6, "transposed", false);
  const std::int64_t out_dim = transposed ? 1 : 0;  // of the weight
  list.add(inputs_of(node, Split::shard(0), Split::replicate(), Split::replicate()), Split::shard(0));
  if (groups == 1) {
    list.add(inputs_of(node, Split::replicate(), Split::shard(out_dim), Split::shard(0)), Split::shard(1));
    list.add(inputs_of(node, Split::shard(1), Split::shard(1 - out_dim), Split::partial()), Split::partial());
  } else {
    const Split first = Split::even_shard(0, groups);
    const Split channels = Split::even_shard(1, groups);
    // A transposed convolution's weight has its groups along the input channels, dim 0 as well.
    list.add(inputs_of(node, channels, first, first), {channels}, {"convolution_local_groups"});
  }
  list.add(inputs_of(node, Split::partial(), Split::replicate(), Split::partial()), Split::partial());
  list.add(inputs_of(node, Split::replicate(), Split::partial(), Split::partial()), Split::partial());
  return list.take();
}

/// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
/// groups, output_mask) -> gradients of input, weight, bias
Strategies convolution_backward(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t groups = int_arg(node, 9, "groups", 1);
  const std::int64_t out_dim = bool_arg(node, 7, "transposed", false) ? 1 : 0;
  const Split whole = Split::replicate();
  const Split pending = Split::partial();
  list.add({Split::shard(0), Split::shard(0), whole}, {Split::shard(0), pending, pending});
  if (groups == 1) {
    list.add({Split::shard(1), whole, Split::shard(out_dim)}, {pending, Split::shard(out_dim), Split::shard(0)});
    list.add({whole, Split::shard(1), Split::shard(1 - out_dim)}, {Split::shard(1), Split::shard(1 - out_dim), whole});
  } else {
    const Split first = Split::even_shard(0, groups);
    const Split channels = Split::even_shard(1, groups);
    list.add({channels, channels, first}, {channels, first, first}, {"convolution_backward_local_groups"});
  }
  list.add({pending, whole, whole}, pending);
  list.add({whole, pending, whole}, {whole, pending, whole});
  list.add({whole, whole, pending}, {pending, whole, whole});
  return list.take();
}

constexpr RuleEntry kRules[] = {
    {"aten.convolution.default", convolution},
    {"aten.convolution_backward.default", convolution_backward},
};

}  // namespace

std::span<const RuleEntry> convolution_rules() { return kRules; }

}  // namespace autopar::costs
