#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Random ops. A piece drawn on its own is as good as one cut from a whole drawing, in distribution, but not the same
/// numbers as on one device. The contract: devices that hold different pieces draw from different streams, devices
/// that hold the same piece (replicated mesh dims) from one stream, as DTensor's random-number trackers arrange it.
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;

/// Every output has the input's shape.
Strategies per_element(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  for (std::int64_t dim = 0; dim < output_meta(node).rank(); ++dim) {
    list.add(std::vector<Split>(node.inputs.size(), Split::shard(dim)), Split::shard(dim));
  }
  return list.take();
}

/// native_dropout_backward(grad_output, mask, scale): linear in grad_output.
Strategies dropout_backward(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  for (std::int64_t dim = 0; dim < output_meta(node).rank(); ++dim) {
    list.add({Split::shard(dim), Split::shard(dim)}, Split::shard(dim));
  }
  list.add({Split::partial(), Split::replicate()}, Split::partial());
  return list.take();
}

constexpr RuleEntry kRules[] = {
    {"aten.bernoulli.default", per_element},         {"aten.bernoulli.p", per_element},
    {"aten.native_dropout.default", per_element},    {"aten.native_dropout_backward.default", dropout_backward},
    {"aten.normal_functional.default", per_element}, {"aten.rand.default", per_element},
    {"aten.rand_like.default", per_element},         {"aten.randn.default", per_element},
    {"aten.randn_like.default", per_element},        {"aten.uniform.default", per_element},
};

}  // namespace

std::span<const RuleEntry> random_rules() { return kRules; }

bool draws_random_numbers(const Node& node) {
  for (const RuleEntry& entry : kRules) {
    if (entry.op == node.op) return entry.rule != dropout_backward;
  }
  return attention_drops(node);
}

}  // namespace autopar::costs
