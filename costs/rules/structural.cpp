#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Ops that put elements together, move, repeat or mask them along some dims. All other dims can be cut in pieces of
/// any size; a pending sum passes through where the op adds nothing but zeros.
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;
using Dims = std::vector<std::int64_t>;

/// One tensor in, one out, of equal rank: cuts along all dims but `fixed`.
Strategies cut_others(const Graph& graph, const Node& node, const Dims& fixed, bool linear = true) {
  StrategyList list(graph, node);
  for (std::int64_t dim = 0; dim < output_meta(node).rank(); ++dim) {
    if (!contains(fixed, dim)) list.add({Split::shard(dim)}, Split::shard(dim));
  }
  if (linear) list.add({Split::partial()}, Split::partial());
  return list.take();
}

/// The same split of every input.
std::vector<Split> all_inputs(const Node& node, Split split) { return std::vector<Split>(node.inputs.size(), split); }

Strategies cat(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t rank = output_meta(node).rank();
  // torch lets an empty vector stand among tensors of any rank.
  const bool same_rank = std::all_of(node.inputs.begin(), node.inputs.end(),
                                     [&](ValueRef input) { return graph.meta(input).rank() == rank; });
  const std::int64_t cat_dim = dim_arg(node, 1, "dim", 0, rank);
  for (std::int64_t dim = 0; same_rank && dim < rank; ++dim) {
    if (dim != cat_dim) list.add(all_inputs(node, Split::shard(dim)), Split::shard(dim));
  }
  list.add(all_inputs(node, Split::partial()), Split::partial());
  return list.take();
}

Strategies stack(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t rank = output_meta(node).rank();
  const std::int64_t new_dim = dim_arg(node, 1, "dim", 0, rank);
  for (std::int64_t dim = 0; dim + 1 < rank; ++dim) {
    list.add(all_inputs(node, Split::shard(dim)), Split::shard(dim < new_dim ? dim : dim + 1));
  }
  list.add(all_inputs(node, Split::partial()), Split::partial());
  return list.take();
}

/// Dims that `pad` changes: it gives (before, after) from the last dim backwards; negative ones cut away.
Dims padded_dims(const Node& node, std::int64_t rank) {
  const Dims pad = ints_arg(node, 1, node.op.starts_with("aten.constant_pad_nd") ? "pad" : "padding");
  Dims dims;
  for (std::size_t i = 0; i + 1 < pad.size(); i += 2) {
    if (pad[i] != 0 || pad[i + 1] != 0) dims.push_back(rank - 1 - static_cast<std::int64_t>(i / 2));
  }
  return dims;
}

/// constant_pad_nd(self, pad, value)
Strategies constant_pad(const Graph& graph, const Node& node) {
  const Dims pad = ints_arg(node, 1, "pad");
  const bool adds = std::any_of(pad.begin(), pad.end(), [](std::int64_t size) { return size > 0; });
  const bool linear = !adds || number_arg(node, 2, "value").value_or(0) == 0;
  return cut_others(graph, node, padded_dims(node, output_meta(node).rank()), linear);
}

/// Padding with the tensor's own elements.
Strategies mirror_pad(const Graph& graph, const Node& node) {
  return cut_others(graph, node, padded_dims(node, output_meta(node).rank()));
}

Strategies flip(const Graph& graph, const Node& node) {
  return cut_others(graph, node, dims_arg(node, 1, "dims", output_meta(node).rank()));
}

/// roll(self, shifts, dims): without dims the flattened tensor rolls, over all of them.
Strategies roll(const Graph& graph, const Node& node) {
  const std::int64_t rank = output_meta(node).rank();
  Dims dims = dims_arg(node, 2, "dims", rank);
  if (dims.empty()) {
    for (std::int64_t dim = 0; dim < rank; ++dim) dims.push_back(dim);
  }
  return cut_others(graph, node, dims);
}

/// The triangle's edge depends on the position in the last two dims.
Strategies triangle(const Graph& graph, const Node& node) {
  const std::int64_t rank = output_meta(node).rank();
  return cut_others(graph, node, {rank - 2, rank - 1});
}

/// repeat(self, repeats): whole copies one after the other, so a repeated dim's pieces would be strewn.
Strategies repeat(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const Dims repeats = ints_arg(node, 1, "repeats");
  const std::int64_t added = output_meta(node).rank() - input_meta(graph, node, 0).rank();
  require(added >= 0 && static_cast<std::int64_t>(repeats.size()) == output_meta(node).rank(), node,
          "not one repeat per dim");
  for (std::int64_t dim = 0; dim + added < output_meta(node).rank(); ++dim) {
    if (repeats[static_cast<std::size_t>(dim + added)] == 1) list.add({Split::shard(dim)}, Split::shard(dim + added));
  }
  list.add({Split::partial()}, Split::partial());
  return list.take();
}

/// slice_scatter(self, src, dim, start, end, step)
Strategies slice_scatter(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t rank = output_meta(node).rank();
  const std::int64_t sliced = dim_arg(node, 2, "dim", 0, rank);
  for (std::int64_t dim = 0; dim < rank; ++dim) {
    if (dim != sliced) list.add(all_inputs(node, Split::shard(dim)), Split::shard(dim));
  }
  list.add(all_inputs(node, Split::partial()), Split::partial());
  return list.take();
}

/// select_scatter(self, src, dim, index): src has one dim less.
Strategies select_scatter(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t rank = output_meta(node).rank();
  const std::int64_t selected = dim_arg(node, 2, "dim", 0, rank);
  for (std::int64_t dim = 0; dim < rank; ++dim) {
    if (dim == selected) continue;
    list.add({Split::shard(dim), Split::shard(dim < selected ? dim : dim - 1)}, Split::shard(dim));
  }
  list.add(all_inputs(node, Split::partial()), Split::partial());
  return list.take();
}

/// glu(self, dim): one half of the dim gates the other.
Strategies glu(const Graph& graph, const Node& node) {
  const std::int64_t rank = output_meta(node).rank();
  return cut_others(graph, node, {dim_arg(node, 1, "dim", -1, rank)}, false);
}

/// glu_backward(grad, self, dim)
Strategies glu_backward(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t rank = output_meta(node).rank();
  const std::int64_t halved = dim_arg(node, 2, "dim", -1, rank);
  for (std::int64_t dim = 0; dim < rank; ++dim) {
    if (dim != halved) list.add(all_inputs(node, Split::shard(dim)), Split::shard(dim));
  }
  list.add({Split::partial(), Split::replicate()}, Split::partial());
  return list.take();
}

constexpr RuleEntry kRules[] = {
    {"aten.cat.default", cat},
    {"aten.constant_pad_nd.default", constant_pad},
    {"aten.flip.default", flip},
    {"aten.glu.default", glu},
    {"aten.glu_backward.default", glu_backward},
    {"aten.reflection_pad1d.default", mirror_pad},
    {"aten.reflection_pad2d.default", mirror_pad},
    {"aten.reflection_pad3d.default", mirror_pad},
    {"aten.repeat.default", repeat},
    {"aten.replication_pad1d.default", mirror_pad},
    {"aten.replication_pad2d.default", mirror_pad},
    {"aten.replication_pad3d.default", mirror_pad},
    {"aten.roll.default", roll},
    {"aten.select_scatter.default", select_scatter},
    {"aten.slice_scatter.default", slice_scatter},
    {"aten.stack.default", stack},
    {"aten.tril.default", triangle},
    {"aten.triu.default", triangle},
};

}  // namespace

std::span<const RuleEntry> structural_rules() { return kRules; }

}  // namespace autopar::costs
