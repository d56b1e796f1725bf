#include <limits>
#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Sorting, selection and histograms. Dims other than the sorted one are independent.
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;

constexpr std::size_t kKeywordOnly = std::numeric_limits<std::size_t>::max();

Strategies sorted_along(const Graph& graph, const Node& node, std::size_t dim_at) {
  StrategyList list(graph, node);
  const std::int64_t rank = input_meta(graph, node, 0).rank();
  const std::int64_t along = dim_arg(node, dim_at, "dim", -1, rank);
  for (std::int64_t dim = 0; dim < rank; ++dim) {
    if (dim != along) list.add({Split::shard(dim)}, Split::shard(dim));
  }
  return list.take();
}

Strategies sort(const Graph& graph, const Node& node) { return sorted_along(graph, node, 1); }
Strategies topk(const Graph& graph, const Node& node) { return sorted_along(graph, node, 2); }
Strategies stable_sort(const Graph& graph, const Node& node) { return sorted_along(graph, node, kKeywordOnly); }

/// kthvalue(self, k, dim, keepdim): the dim is gone or of size one.
Strategies kthvalue(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t rank = input_meta(graph, node, 0).rank();
  const std::int64_t along = dim_arg(node, 2, "dim", -1, rank);
  const bool keeps = bool_arg(node, 3, "keepdim", false);
  for (std::int64_t dim = 0; dim < rank; ++dim) {
    if (dim != along) list.add({Split::shard(dim)}, Split::shard(dim > along && !keeps ? dim - 1 : dim));
  }
  return list.take();
}

/// histc(self, bins, min, max): counts add up if the range is given; by default it is the data's own.
Strategies histc(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const double low = number_arg(node, 2, "min").value_or(0);
  const double high = number_arg(node, 3, "max").value_or(0);
  for (std::int64_t dim = 0; low < high && dim < input_meta(graph, node, 0).rank(); ++dim) {
    list.add({Split::shard(dim)}, Split::partial());
  }
  return list.take();
}

/// bucketize(self, boundaries): counts the boundaries below each element.
Strategies bucketize(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  for (std::int64_t dim = 0; dim < input_meta(graph, node, 0).rank(); ++dim) {
    list.add({Split::shard(dim), Split::replicate()}, Split::shard(dim));
  }
  list.add({Split::replicate(), Split::shard(0)}, Split::partial());
  return list.take();
}

/// searchsorted(sorted_sequence, self): one sequence for all values, or one for each row.
Strategies searchsorted(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  if (node.inputs.size() != 2) return list.take();  // with a sorter
  const std::int64_t rank = input_meta(graph, node, 1).rank();
  const bool by_row = input_meta(graph, node, 0).rank() > 1;
  for (std::int64_t dim = 0; dim < rank; ++dim) {
    list.add({by_row && dim + 1 < rank ? Split::shard(dim) : Split::replicate(), Split::shard(dim)}, Split::shard(dim));
  }
  list.add({Split::shard(input_meta(graph, node, 0).rank() - 1), Split::replicate()}, Split::partial());
  return list.take();
}

constexpr RuleEntry kRules[] = {
    {"aten.argsort.default", sort}, {"aten.argsort.stable", stable_sort}, {"aten.bucketize.Tensor", bucketize},
    {"aten.histc.default", histc},  {"aten.kthvalue.default", kthvalue},  {"aten.searchsorted.Tensor", searchsorted},
    {"aten.sort.default", sort},    {"aten.sort.stable", stable_sort},    {"aten.topk.default", topk},
};

}  // namespace

std::span<const RuleEntry> sort_rules() { return kRules; }

}  // namespace autopar::costs
