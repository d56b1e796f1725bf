#include <string_view>
#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Softmax, cross-entropy and losses of pairs. Rows (all dims but the class dim) are independent. What must be known
/// across devices, the number of counted rows or a row's normaliser, is all-reduced inside a local program.
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;

enum class Reduction : std::int64_t { kNone = 0, kMean = 1, kSum = 2 };

Reduction reduction_arg(const Node& node, std::size_t position) {
  const std::int64_t value = int_arg(node, position, "reduction", 1);
  require(value >= 0 && value <= 2, node, "reduction must be 0 (none), 1 (mean) or 2 (sum)");
  return static_cast<Reduction>(value);
}

void add_rows(StrategyList& list, const Graph& graph, const Node& node, std::int64_t class_dim) {
  for (std::int64_t dim = 0; dim < input_meta(graph, node, 0).rank(); ++dim) {
    if (dim != class_dim) list.add(std::vector<Split>(node.inputs.size(), Split::shard(dim)), Split::shard(dim));
  }
}

/// softmax(self, dim, ...): the row's normaliser is an all-reduced maximum and sum.
Strategies softmax(const Graph& graph, const Node& node, std::string_view sharded) {
  StrategyList list(graph, node);
  const std::int64_t dim = dim_arg(node, 1, "dim", -1, input_meta(graph, node, 0).rank());
  add_rows(list, graph, node, dim);
  if (!sharded.empty()) list.add({Split::shard(dim)}, {Split::shard(dim)}, {sharded, 2, 0, dim});
  return list.take();
}

Strategies log_softmax(const Graph& graph, const Node& node) { return softmax(graph, node, "log_softmax_sharded"); }
Strategies plain_softmax(const Graph& graph, const Node& node) { return softmax(graph, node, "softmax_sharded"); }
Strategies safe_softmax(const Graph& graph, const Node& node) { return softmax(graph, node, ""); }

/// softmax_backward(grad_output, output, dim, input_dtype): linear in grad_output; one sum per row.
Strategies softmax_backward(const Graph& graph, const Node& node, std::string_view sharded) {
  StrategyList list(graph, node);
  const std::int64_t dim = dim_arg(node, 2, "dim", -1, input_meta(graph, node, 0).rank());
  add_rows(list, graph, node, dim);
  list.add({Split::partial(), Split::replicate()}, Split::partial());
  list.add({Split::shard(dim), Split::shard(dim)}, {Split::shard(dim)}, {sharded, 1, 0, dim});
  return list.take();
}

Strategies log_softmax_backward(const Graph& graph, const Node& node) {
  return softmax_backward(graph, node, "log_softmax_backward_sharded");
}
Strategies plain_softmax_backward(const Graph& graph, const Node& node) {
  return softmax_backward(graph, node, "softmax_backward_sharded");
}

/// nll_loss_forward(self, target, weight, reduction, ignore_index) -> output, total_weight. The class dim is 1, or 0 of
/// a single row. Ignored rows make devices' counts differ, so a mean over cut rows divides by the all-reduced count.
Strategies nll_loss(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t rank = input_meta(graph, node, 0).rank();
  const Reduction reduction = reduction_arg(node, 3);
  const bool weighted = node.inputs.size() > 2;
  const auto inputs = [&](Split self, Split target, Split weight) {
    return weighted ? std::vector<Split>{self, target, weight} : std::vector<Split>{self, target};
  };
  for (std::int64_t dim = 0; rank >= 2 && dim < rank; ++dim) {
    if (dim == 1) continue;
    const Split target = Split::shard(dim == 0 ? 0 : dim - 1);
    const std::vector<Split> rows = inputs(Split::shard(dim), target, Split::replicate());
    if (reduction == Reduction::kNone) {
      list.add(rows, {target, Split::replicate()});
    } else if (reduction == Reduction::kSum) {
      list.add(rows, {Split::partial(), Split::partial()});
    } else {
      list.add(rows, {Split::partial(), Split::replicate()}, {"nll_loss_mean", 1});
    }
  }
  const std::int64_t classes = rank >= 2 ? 1 : 0;
  const std::vector<Split> outputs{Split::partial(), Split::replicate()};
  list.add(inputs(Split::shard(classes), Split::replicate(), Split::replicate()), outputs, {"nll_loss_sharded"});
  list.add(inputs(Split::partial(), Split::replicate(), Split::replicate()), outputs);
  return list.take();
}

/// nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight): self only lends its
/// shape; a mean divides by total_weight, the whole count, so rows are independent and the gradient is linear in
/// grad_output. Other reductions do not read total_weight, which may then be what the forward left pending.
Strategies nll_loss_backward(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t rank = input_meta(graph, node, 1).rank();
  const Reduction reduction = reduction_arg(node, 4);
  const bool per_row = reduction == Reduction::kNone;
  const auto inputs = [&](Split grad, Split self, Split target) {
    std::vector<Split> splits = list.replicated_inputs();
    splits[0] = grad;
    splits[1] = self;
    splits[2] = target;
    return splits;
  };
  for (std::int64_t dim = 0; rank >= 2 && dim < rank; ++dim) {
    if (dim == 1) continue;
    const Split target = Split::shard(dim == 0 ? 0 : dim - 1);
    std::vector<Split> rows = inputs(per_row ? target : Split::replicate(), Split::shard(dim), target);
    list.add(rows, Split::shard(dim));
    if (reduction != Reduction::kSum) continue;
    rows.back() = Split::partial();
    list.add(rows, Split::shard(dim));
  }
  list.add(inputs(Split::partial(), Split::replicate(), Split::replicate()), Split::partial());
  const std::int64_t classes = rank >= 2 ? 1 : 0;
  list.add(inputs(Split::replicate(), Split::shard(classes), Split::replicate()), {Split::shard(classes)},
           {"nll_loss_backward_sharded"});
  return list.take();
}

/// mse_loss(self, target, reduction) and its like
Strategies pair_loss(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const Reduction reduction = reduction_arg(node, 2);
  for (std::int64_t dim = 0; dim < input_meta(graph, node, 0).rank(); ++dim) {
    const bool mean = reduction == Reduction::kMean;
    const Split input = mean ? Split::even_shard(dim) : Split::shard(dim);
    const Split output = reduction == Reduction::kNone ? Split::shard(dim)
                         : mean                        ? Split::partial(ReduceOp::kAvg)
                                                       : Split::partial();
    list.add({input, input}, output);
  }
  return list.take();
}

/// mse_loss_backward(grad_output, self, target, reduction) and its like. A mean divides by the number of elements,
/// which the plain op would take from its piece.
Strategies pair_loss_backward(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const Reduction reduction = reduction_arg(node, 3);
  for (std::int64_t dim = 0; dim < input_meta(graph, node, 1).rank(); ++dim) {
    const Split split = Split::shard(dim);
    const Split grad = reduction == Reduction::kNone ? split : Split::replicate();
    const LocalProgram program{reduction == Reduction::kMean ? "pair_loss_backward_mean" : ""};
    list.add({grad, split, split}, {split}, program);
  }
  list.add({Split::partial(), Split::replicate(), Split::replicate()}, Split::partial());
  return list.take();
}

constexpr RuleEntry kRules[] = {
    {"aten._log_softmax.default", log_softmax},
    {"aten._log_softmax_backward_data.default", log_softmax_backward},
    {"aten._safe_softmax.default", safe_softmax},
    {"aten._softmax.default", plain_softmax},
    {"aten._softmax_backward_data.default", plain_softmax_backward},
    {"aten.huber_loss.default", pair_loss},
    {"aten.huber_loss_backward.default", pair_loss_backward},
    {"aten.mse_loss.default", pair_loss},
    {"aten.mse_loss_backward.default", pair_loss_backward},
    {"aten.nll_loss2d_backward.default", nll_loss_backward},
    {"aten.nll_loss2d_forward.default", nll_loss},
    {"aten.nll_loss_backward.default", nll_loss_backward},
    {"aten.nll_loss_forward.default", nll_loss},
    {"aten.smooth_l1_loss.default", pair_loss},
    {"aten.smooth_l1_loss_backward.default", pair_loss_backward},
};

}  // namespace

std::span<const RuleEntry> loss_rules() { return kRules; }

}  // namespace autopar::costs
