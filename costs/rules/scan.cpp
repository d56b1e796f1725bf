#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Scans: each element depends on those before it along one dim; all other dims are independent.
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;

StrategyList other_dims(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t rank = input_meta(graph, node, 0).rank();
  const std::int64_t along = dim_arg(node, 1, "dim", 0, rank);
  for (std::int64_t dim = 0; dim < rank; ++dim) {
    if (dim != along) list.add({Split::shard(dim)}, Split::shard(dim));
  }
  return list;
}

Strategies scan(const Graph& graph, const Node& node) { return other_dims(graph, node).take(); }

/// Sums of sums are sums, unless the dtype asked for rounds each of them.
Strategies cumsum(const Graph& graph, const Node& node) {
  StrategyList list = other_dims(graph, node);
  if (cast_is_linear(input_meta(graph, node, 0).dtype, output_meta(node).dtype)) {
    list.add({Split::partial()}, Split::partial());
  }
  return list.take();
}

constexpr RuleEntry kRules[] = {
    {"aten.cummax.default", scan},   {"aten.cummin.default", scan},       {"aten.cumprod.default", scan},
    {"aten.cumsum.default", cumsum}, {"aten.logcumsumexp.default", scan},
};

}  // namespace

std::span<const RuleEntry> scan_rules() { return kRules; }

}  // namespace autopar::costs
