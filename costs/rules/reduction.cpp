#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Reductions. Dims that stay can be cut in pieces of any size; a cut across reduced dims leaves the result pending,
/// where one all-reduce of the results completes it.
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;

/// Position of an argument that can only be given by keyword.
constexpr std::size_t kKeywordOnly = std::numeric_limits<std::size_t>::max();

struct Reduction {
  std::vector<std::int64_t> dims;  ///< reduced, counted from the front
  bool keepdim = false;
  std::optional<ReduceOp> pending;  ///< what completes the result when a reduced dim is cut; nothing: it cannot be
  bool linear = false;              ///< whether a pending sum passes through
};

/// Reads the dims at position `dim_at`; none given means all of them.
Reduction read(const Graph& graph, const Node& node, std::size_t dim_at, std::size_t keepdim_at) {
  const std::int64_t rank = input_meta(graph, node, 0).rank();
  Reduction reduction;
  reduction.dims = dims_arg(node, dim_at, "dim", rank);
  if (reduction.dims.empty()) {
    for (std::int64_t dim = 0; dim < rank; ++dim) reduction.dims.push_back(dim);
  }
  reduction.keepdim = bool_arg(node, keepdim_at, "keepdim", false);
  return reduction;
}

Strategies list_strategies(const Graph& graph, const Node& node, const Reduction& reduction) {
  StrategyList list(graph, node);
  std::int64_t out_dim = 0;
  for (std::int64_t dim = 0; dim < input_meta(graph, node, 0).rank(); ++dim) {
    if (!contains(reduction.dims, dim)) {
      list.add({Split::shard(dim)}, Split::shard(out_dim));
    } else if (reduction.pending) {
      // The average of local averages is the average only if all pieces weigh the same.
      const Split input = *reduction.pending == ReduceOp::kAvg ? Split::even_shard(dim) : Split::shard(dim);
      list.add({input}, Split::partial(*reduction.pending));
    }
    if (reduction.keepdim || !contains(reduction.dims, dim)) ++out_dim;
  }
  if (reduction.linear) list.add({Split::partial()}, Split::partial());
  return list.take();
}

/// sum(self, dim, keepdim, dtype). With an integer dtype asked for, each summand is rounded: no longer linear.
Strategies sum(const Graph& graph, const Node& node) {
  Reduction reduction = read(graph, node, 1, 2);
  reduction.pending = ReduceOp::kSum;
  reduction.linear = cast_is_linear(input_meta(graph, node, 0).dtype, output_meta(node).dtype);
  return list_strategies(graph, node, reduction);
}

Strategies mean(const Graph& graph, const Node& node) {
  Reduction reduction = read(graph, node, 1, 2);
  reduction.pending = ReduceOp::kAvg;
  reduction.linear = true;
  return list_strategies(graph, node, reduction);
}

Strategies nansum(const Graph& graph, const Node& node) {
  Reduction reduction = read(graph, node, 1, 2);
  reduction.pending = ReduceOp::kSum;
  return list_strategies(graph, node, reduction);
}

Strategies count_nonzero(const Graph& graph, const Node& node) {
  Reduction reduction = read(graph, node, 1, kKeywordOnly);
  reduction.pending = ReduceOp::kSum;
  return list_strategies(graph, node, reduction);
}

Strategies maximum(const Graph& graph, const Node& node) {
  Reduction reduction = read(graph, node, 1, 2);
  reduction.pending = ReduceOp::kMax;
  return list_strategies(graph, node, reduction);
}

Strategies minimum(const Graph& graph, const Node& node) {
  Reduction reduction = read(graph, node, 1, 2);
  reduction.pending = ReduceOp::kMin;
  return list_strategies(graph, node, reduction);
}

/// No reduction of the pieces' results gives the whole one: products, positions, any, all, logsumexp.
Strategies whole(const Graph& graph, const Node& node) { return list_strategies(graph, node, read(graph, node, 1, 2)); }

/// var(self, dim, *, correction, keepdim)
Strategies variance(const Graph& graph, const Node& node) {
  return list_strategies(graph, node, read(graph, node, 1, kKeywordOnly));
}

/// var(self, dim, unbiased, keepdim)
Strategies variance_dim(const Graph& graph, const Node& node) {
  return list_strategies(graph, node, read(graph, node, 1, 3));
}

/// linalg_vector_norm(self, ord, dim, keepdim, dtype)
Strategies norm(const Graph& graph, const Node& node) {
  Reduction reduction = read(graph, node, 2, 3);
  const double order = number_arg(node, 1, "ord").value_or(2);
  if (order == 0 || order == 1) reduction.pending = ReduceOp::kSum;
  if (std::isinf(order)) reduction.pending = order > 0 ? ReduceOp::kMax : ReduceOp::kMin;
  return list_strategies(graph, node, reduction);
}

constexpr RuleEntry kRules[] = {
    {"aten.all.default", whole},
    {"aten.all.dim", whole},
    {"aten.all.dims", whole},
    {"aten.amax.default", maximum},
    {"aten.amin.default", minimum},
    {"aten.any.default", whole},
    {"aten.any.dim", whole},
    {"aten.any.dims", whole},
    {"aten.argmax.default", whole},
    {"aten.argmin.default", whole},
    {"aten.count_nonzero.default", count_nonzero},
    {"aten.count_nonzero.dim_IntList", count_nonzero},
    {"aten.linalg_vector_norm.default", norm},
    {"aten.logsumexp.default", whole},
    {"aten.max.default", maximum},
    {"aten.max.dim", whole},
    {"aten.mean.default", mean},
    {"aten.mean.dim", mean},
    {"aten.median.dim", whole},
    {"aten.min.default", minimum},
    {"aten.min.dim", whole},
    {"aten.nansum.default", nansum},
    {"aten.prod.default", whole},
    {"aten.prod.dim_int", whole},
    {"aten.std.correction", variance},
    {"aten.std.dim", variance_dim},
    {"aten.std_mean.correction", variance},
    {"aten.sum.default", sum},
    {"aten.sum.dim_IntList", sum},
    {"aten.var.correction", variance},
    {"aten.var.dim", variance_dim},
    {"aten.var_mean.correction", variance},
};

}  // namespace

std::span<const RuleEntry> reduction_rules() { return kRules; }

}  // namespace autopar::costs
