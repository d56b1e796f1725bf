#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Views and their gradients: the same elements under other indices. A dim that is carried through unchanged carries
/// its shard in pieces of any size; a pending sum always passes through. Where a size is given as a literal (view,
/// expand, slice_backward), the program that runs the plan makes it the local one.
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;
using Dims = std::vector<std::int64_t>;

constexpr std::int64_t kNoDim = -1;

std::int64_t rank_of(const Graph& graph, const Node& node) { return input_meta(graph, node, 0).rank(); }

/// The dims 0 … rank-1.
Dims all_dims(std::int64_t rank) {
  Dims dims(static_cast<std::size_t>(rank));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Dims all_dims_but(std::int64_t rank, std::int64_t without) {
  Dims dims = all_dims(rank);
  std::erase(dims, without);
  return dims;
}

/// An op whose output dim `i` (of every output) is the input's dim `source[i]`, or kNoDim for one made by the op.
Strategies carry(const Graph& graph, const Node& node, const Dims& source) {
  StrategyList list(graph, node);
  for (std::size_t out = 0; out < source.size(); ++out) {
    if (source[out] == kNoDim) continue;
    require(source[out] < rank_of(graph, node), node, "the input has too few dims");
    const std::int64_t size = size_of(input_meta(graph, node, 0), source[out]);
    for (const auto& output : node.outputs) {
      if (!output) continue;
      require(output->rank() > static_cast<std::int64_t>(out) && output->shape[out] == size, node,
              "the output's shape does not follow from the input's");
    }
    list.add({Split::shard(source[out])}, Split::shard(static_cast<std::int64_t>(out)));
  }
  list.add({Split::partial()}, Split::partial());
  return list.take();
}

Strategies identity(const Graph& graph, const Node& node) { return carry(graph, node, all_dims(rank_of(graph, node))); }

/// The next group of dims of a view: the fewest dims of both shapes, from where `in` and `out` stand, that hold the
/// same number of elements. Dims of size 1 do not count. Advances both past the group.
struct Group {
  std::int64_t in = kNoDim;   ///< its first dim in the input
  std::int64_t out = kNoDim;  ///< and in the output
  bool one_to_one = false;    ///< one dim on each side
};

std::optional<Group> next_group(const TensorMeta& input, const TensorMeta& output, std::int64_t& in,
                                std::int64_t& out) {
  const auto skip_ones = [](const TensorMeta& tensor, std::int64_t& dim) {
    while (dim < tensor.rank() && size_of(tensor, dim) == 1) ++dim;
  };
  skip_ones(input, in);
  skip_ones(output, out);
  if (in == input.rank() || out == output.rank()) return std::nullopt;
  Group group{in, out, false};
  std::int64_t in_elements = size_of(input, in++);
  std::int64_t out_elements = size_of(output, out++);
  group.one_to_one = in_elements == out_elements;
  while (in_elements != out_elements) {
    if (in_elements < out_elements) {
      in_elements *= size_of(input, in++);
    } else {
      out_elements *= size_of(output, out++);
    }
  }
  return group;
}

/// view and its like. Where dims merge or split, memory order makes the first dim of the group on either side the outer
/// one, so a cut of the first dims into equal pieces is the same cut on both sides; its number of pieces divides both
/// sizes. Any other dim of a group is strewn over the other side and cannot be cut.
Strategies reshape(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const TensorMeta& input = input_meta(graph, node, 0);
  const TensorMeta& output = output_meta(node);
  if (input.numel() > 0 && input.numel() == output.numel()) {
    std::int64_t in = 0;
    std::int64_t out = 0;
    while (const std::optional<Group> group = next_group(input, output, in, out)) {
      if (group->one_to_one) {
        list.add({Split::shard(group->in)}, Split::shard(group->out));
        continue;
      }
      const std::int64_t units = std::gcd(size_of(input, group->in), size_of(output, group->out));
      list.add({Split::even_shard(group->in, units)}, Split::even_shard(group->out, units));
    }
  }
  list.add({Split::partial()}, Split::partial());
  return list.take();
}

/// view(self, dtype): the bits under another type. If its size differs, the last dim holds more or fewer elements.
Strategies view_dtype(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const TensorMeta& input = input_meta(graph, node, 0);
  const TensorMeta& output = output_meta(node);
  require(input.rank() == output.rank(), node, "the output has another number of dims");
  for (std::int64_t dim = 0; dim < input.rank(); ++dim) {
    if (size_of(input, dim) == size_of(output, dim)) {
      list.add({Split::shard(dim)}, Split::shard(dim));
    } else {
      const Split shard = Split::even_shard(dim, std::gcd(size_of(input, dim), size_of(output, dim)));
      list.add({shard}, shard);
    }
  }
  return list.take();
}

Strategies transpose(const Graph& graph, const Node& node) {
  const std::int64_t rank = rank_of(graph, node);
  Dims source = all_dims(rank);
  if (rank == 0) return carry(graph, node, source);
  const std::int64_t a = dim_arg(node, 1, "dim0", 0, rank);
  const std::int64_t b = dim_arg(node, 2, "dim1", 1, rank);
  std::swap(source[static_cast<std::size_t>(a)], source[static_cast<std::size_t>(b)]);
  return carry(graph, node, source);
}

Strategies t(const Graph& graph, const Node& node) {
  const Dims source = all_dims(rank_of(graph, node));
  return carry(graph, node, Dims(source.rbegin(), source.rend()));
}

Strategies permute(const Graph& graph, const Node& node) {
  return carry(graph, node, dims_arg(node, 1, "dims", rank_of(graph, node)));
}

Strategies unsqueeze(const Graph& graph, const Node& node) {
  const std::int64_t rank = rank_of(graph, node);
  Dims source = all_dims(rank);
  source.insert(source.begin() + dim_arg(node, 1, "dim", 0, rank + 1), kNoDim);
  return carry(graph, node, source);
}

/// Pieces of size 2 or more: squeeze() must not take a dim for one of size 1 because the local piece is.
Split shard_of_two_or_more(std::int64_t dim, std::int64_t size) {
  std::int64_t factor = 2;
  while (size % factor != 0) ++factor;
  return Split::even_shard(dim, size / factor);
}

Strategies squeeze_dims(const Graph& graph, const Node& node, const Dims& dims) {
  StrategyList list(graph, node);
  const TensorMeta& input = input_meta(graph, node, 0);
  std::int64_t out = 0;
  for (std::int64_t dim = 0; dim < input.rank(); ++dim) {
    const bool named = contains(dims, dim);
    const std::int64_t size = size_of(input, dim);
    if (named && size == 1) continue;
    if (size > 1) {
      Split split = named ? shard_of_two_or_more(dim, size) : Split::shard(dim);
      const Split input_split = split;
      split.placement = Placement::shard(out);
      list.add({input_split}, split);
    }
    ++out;
  }
  list.add({Split::partial()}, Split::partial());
  return list.take();
}

Strategies squeeze(const Graph& graph, const Node& node) {
  return squeeze_dims(graph, node, all_dims(rank_of(graph, node)));
}

Strategies squeeze_named(const Graph& graph, const Node& node) {
  return squeeze_dims(graph, node, dims_arg(node, 1, "dim", rank_of(graph, node)));
}

/// A dim that is expanded from size 1 can be made in any piece of a whole input.
Strategies expand(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const TensorMeta& output = output_meta(node);
  for (std::int64_t dim = 0; dim < output.rank(); ++dim) {
    list.add({broadcast_shard(input_meta(graph, node, 0), output, dim)}, Split::shard(dim));
  }
  list.add({Split::partial()}, Split::partial());
  return list.take();
}

/// select(self, dim, index) and unbind(self, dim)
Strategies drop_dim(const Graph& graph, const Node& node) {
  const std::int64_t rank = rank_of(graph, node);
  return carry(graph, node, all_dims_but(rank, dim_arg(node, 1, "dim", 0, rank)));
}

Strategies select_backward(const Graph& graph, const Node& node) {
  const std::int64_t rank = output_meta(node).rank();
  Dims source = all_dims(rank - 1);
  source.insert(source.begin() + dim_arg(node, 2, "dim", 0, rank), kNoDim);
  return carry(graph, node, source);
}

/// Carries all dims but `dim`.
Strategies carry_others(const Graph& graph, const Node& node, std::int64_t dim) {
  Dims source = all_dims(rank_of(graph, node));
  source.at(static_cast<std::size_t>(dim)) = kNoDim;
  return carry(graph, node, source);
}

/// A slice of `whole`'s dim `dim` or, in slice_backward, into it; `part` is the sliced tensor. The arguments from `at`
/// on are start, end, step. The sliced dim can be cut if the slice is all of it, or takes one element of every `step`
/// and all pieces hold the same number of steps.
Strategies slice_along(const Graph& graph, const Node& node, std::size_t at, std::int64_t dim, const TensorMeta& whole,
                       const TensorMeta& part) {
  require(dim < whole.rank() && dim < part.rank(), node, "the slice has another number of dims");
  const std::int64_t size = size_of(whole, dim);
  const std::int64_t start = int_arg(node, at, "start", 0);
  const std::int64_t step = int_arg(node, at + 2, "step", 1);
  if (step == 1 && size_of(part, dim) == size) return identity(graph, node);

  Strategies strategies = carry_others(graph, node, dim);
  // A negative start counts from the end of the piece.
  const bool regular = 0 <= start && start < step && size % step == 0 && size_of(part, dim) == size / step;
  if (regular && size / step >= 2) {
    const Split shard = Split::even_shard(dim, size / step);
    strategies.push_back({{shard}, {shard}});
  }
  return strategies;
}

Strategies slice(const Graph& graph, const Node& node) {
  const TensorMeta& input = input_meta(graph, node, 0);
  const std::int64_t dim = dim_arg(node, 1, "dim", 0, input.rank());
  return slice_along(graph, node, 2, dim, input, output_meta(node));
}

/// slice_backward(grad, input_sizes, dim, start, end, step)
Strategies slice_backward(const Graph& graph, const Node& node) {
  const TensorMeta& grad = input_meta(graph, node, 0);
  const std::int64_t dim = dim_arg(node, 2, "dim", 0, grad.rank());
  return slice_along(graph, node, 3, dim, output_meta(node), grad);
}

/// split(self, size or sizes, dim): every output keeps the other dims.
Strategies split(const Graph& graph, const Node& node) {
  return carry_others(graph, node, dim_arg(node, 2, "dim", 0, rank_of(graph, node)));
}

/// unfold(self, dimension, size, step): windows over one dim, their elements in a new last dim.
Strategies unfold(const Graph& graph, const Node& node) {
  const std::int64_t rank = rank_of(graph, node);
  if (rank == 0) return carry(graph, node, {});
  Dims source = all_dims(rank);
  source[static_cast<std::size_t>(dim_arg(node, 1, "dimension", 0, rank))] = kNoDim;
  source.push_back(kNoDim);
  return carry(graph, node, source);
}

/// diagonal(self, offset, dim1, dim2): the diagonal becomes the last dim.
Strategies diagonal(const Graph& graph, const Node& node) {
  const std::int64_t rank = rank_of(graph, node);
  Dims source = all_dims(rank);
  std::erase(source, dim_arg(node, 2, "dim1", 0, rank));
  std::erase(source, dim_arg(node, 3, "dim2", 1, rank));
  source.push_back(kNoDim);
  return carry(graph, node, source);
}

/// The last dim of a view as real numbers holds real and imaginary part.
Strategies view_as_real(const Graph& graph, const Node& node) {
  Dims source = all_dims(rank_of(graph, node));
  source.push_back(kNoDim);
  return carry(graph, node, source);
}

Strategies view_as_complex(const Graph& graph, const Node& node) {
  return carry(graph, node, all_dims(rank_of(graph, node) - 1));
}

/// Strides are those of the whole storage.
Strategies whole(const Graph&, const Node& node) { return {replicated(node)}; }

constexpr RuleEntry kRules[] = {
    {"autopar.constrain.default", identity},
    {"aten._reshape_alias.default", reshape},
    {"aten._reshape_copy.default", reshape},
    {"aten._unsafe_view.default", reshape},
    {"aten.alias.default", identity},
    {"aten.alias_copy.default", identity},
    {"aten.as_strided.default", whole},
    {"aten.detach.default", identity},
    {"aten.detach_copy.default", identity},
    {"aten.diagonal.default", diagonal},
    {"aten.diagonal_copy.default", diagonal},
    {"aten.expand.default", expand},
    {"aten.expand_copy.default", expand},
    {"aten.flatten.using_ints", reshape},
    {"aten.permute.default", permute},
    {"aten.permute_copy.default", permute},
    {"aten.reshape.default", reshape},
    {"aten.select.int", drop_dim},
    {"aten.select_backward.default", select_backward},
    {"aten.select_copy.int", drop_dim},
    {"aten.slice.Tensor", slice},
    {"aten.slice_backward.default", slice_backward},
    {"aten.slice_copy.Tensor", slice},
    {"aten.split.Tensor", split},
    {"aten.split_copy.Tensor", split},
    {"aten.split_with_sizes.default", split},
    {"aten.split_with_sizes_copy.default", split},
    {"aten.squeeze.default", squeeze},
    {"aten.squeeze.dim", squeeze_named},
    {"aten.squeeze.dims", squeeze_named},
    {"aten.squeeze_copy.default", squeeze},
    {"aten.squeeze_copy.dim", squeeze_named},
    {"aten.squeeze_copy.dims", squeeze_named},
    {"aten.t.default", t},
    {"aten.t_copy.default", t},
    {"aten.transpose.int", transpose},
    {"aten.transpose_copy.int", transpose},
    {"aten.unbind.int", drop_dim},
    {"aten.unbind_copy.int", drop_dim},
    {"aten.unfold.default", unfold},
    {"aten.unfold_copy.default", unfold},
    {"aten.unsafe_split.Tensor", split},
    {"aten.unsafe_split_with_sizes.default", split},
    {"aten.unsqueeze.default", unsqueeze},
    {"aten.unsqueeze_copy.default", unsqueeze},
    {"aten.view.default", reshape},
    {"aten.view.dtype", view_dtype},
    {"aten.view_as_complex.default", view_as_complex},
    {"aten.view_as_real.default", view_as_real},
    {"aten.view_copy.default", reshape},
};

}  // namespace

std::span<const RuleEntry> view_rules() { return kRules; }

}  // namespace autopar::costs
