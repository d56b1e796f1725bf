#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Matrix products. A product with one batch dim has, per mesh dim, these: cut the batch, the rows, the columns, or the
/// contraction, which leaves a pending sum; and a pending sum in either factor passes through.
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;

/// What an index of the product cuts: the dim of each operand and of the output that it runs over, -1 for none.
struct ProductIndex {
  int left;
  int right;
  int output;
};

Split shard_or_replicate(int dim) { return dim < 0 ? Split::replicate() : Split::shard(dim); }

/// The product of the inputs `first` and `first + 1`, plus input 0 if `first` is 1.
Strategies product(const Graph& graph, const Node& node, std::size_t first, std::span<const ProductIndex> indices) {
  StrategyList list(graph, node);
  const auto add = [&](Split bias, Split left, Split right, Split output) {
    std::vector<Split> inputs;
    if (first == 1) inputs.push_back(bias);
    inputs.push_back(left);
    inputs.push_back(right);
    list.add(inputs, output);
  };
  const TensorMeta& output = output_meta(node);
  require(first == 0 || input_meta(graph, node, 0).rank() <= output.rank(), node, "the bias has too many dims");
  for (const ProductIndex& index : indices) {
    require(index.output < output.rank(), node, "the output has too few dims");
    const Split left = shard_or_replicate(index.left);
    const Split right = shard_or_replicate(index.right);
    if (index.output < 0) {
      add(Split::partial(), left, right, Split::partial());
    } else {
      const Split bias =
          first == 1 ? broadcast_shard(input_meta(graph, node, 0), output, index.output) : Split::replicate();
      add(bias, left, right, Split::shard(index.output));
    }
  }
  // A bias that is not a pending sum itself would be added once per device.
  add(Split::partial(), Split::partial(), Split::replicate(), Split::partial());
  add(Split::partial(), Split::replicate(), Split::partial(), Split::partial());
  return list.take();
}

constexpr ProductIndex kMatrix[] = {{0, -1, 0}, {-1, 1, 1}, {1, 0, -1}};
constexpr ProductIndex kBatched[] = {{0, 0, 0}, {1, -1, 1}, {-1, 2, 2}, {2, 1, -1}};
constexpr ProductIndex kVector[] = {{0, -1, 0}, {1, 0, -1}};
constexpr ProductIndex kScalar[] = {{0, 0, -1}};

Strategies mm(const Graph& graph, const Node& node) { return product(graph, node, 0, kMatrix); }
Strategies addmm(const Graph& graph, const Node& node) { return product(graph, node, 1, kMatrix); }
Strategies bmm(const Graph& graph, const Node& node) { return product(graph, node, 0, kBatched); }
Strategies baddbmm(const Graph& graph, const Node& node) { return product(graph, node, 1, kBatched); }
Strategies mv(const Graph& graph, const Node& node) { return product(graph, node, 0, kVector); }
Strategies addmv(const Graph& graph, const Node& node) { return product(graph, node, 1, kVector); }
Strategies dot(const Graph& graph, const Node& node) { return product(graph, node, 0, kScalar); }

/// linear(input, weight, bias): input [..., k] times weight [n, k] transposed.
Strategies linear(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const int last = static_cast<int>(input_meta(graph, node, 0).rank()) - 1;
  require(last >= 0, node, "the input has no dims");
  const bool has_bias = node.inputs.size() == 3;
  const auto add = [&](Split input, Split weight, Split bias, Split output) {
    std::vector<Split> inputs = {input, weight};
    if (has_bias) inputs.push_back(bias);
    list.add(inputs, output);
  };
  for (int dim = 0; dim < last; ++dim) {
    add(Split::shard(dim), Split::replicate(), Split::replicate(), Split::shard(dim));
  }
  if (output_meta(node).rank() == last + 1) {
    add(Split::replicate(), Split::shard(0), Split::shard(0), Split::shard(last));
  }
  add(Split::shard(last), input_meta(graph, node, 1).rank() == 1 ? Split::shard(0) : Split::shard(1), Split::partial(),
      Split::partial());
  add(Split::partial(), Split::replicate(), Split::partial(), Split::partial());
  add(Split::replicate(), Split::partial(), Split::partial(), Split::partial());
  return list.take();
}

/// Shards that grouped kernels accept: they want every row to start at a multiple of 16 bytes (torch checks the strides
/// of _grouped_mm and the sizes of _scaled_mm), in the local pieces too. Which dim is the inner one depends on the
/// strides: all dims keep the rule.
std::optional<Split> aligned_shard(const TensorMeta& tensor, int dim) {
  const std::int64_t size = size_of(tensor, dim);
  const std::int64_t elements = 16 / dtype_bytes(tensor.dtype);
  if (elements < 1 || size % elements != 0) return std::nullopt;
  return Split::even_shard(dim, size / elements);
}

/// The indices over which _grouped_mm(left, right, offsets) may be cut. Offsets count along the dim that the groups
/// divide, over the whole of it: that dim and the groups themselves stay whole.
std::vector<ProductIndex> grouped_indices(std::int64_t left_rank, std::int64_t right_rank) {
  if (left_rank == 2 && right_rank == 3) return {{-1, 2, 1}, {1, 1, -1}};  // rows are grouped
  if (left_rank == 3 && right_rank == 2) return {{1, -1, 0}, {2, 0, -1}};  // columns are grouped
  if (left_rank == 2 && right_rank == 2) return {{0, -1, 1}, {-1, 1, 2}};  // the contraction is grouped
  return {{1, -1, 1}, {-1, 2, 2}, {2, 1, -1}};
}

Strategies grouped_mm(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  // A bias has no backward kernel in torch yet; its strategies would be guesses.
  if (find_arg(node, 3, "bias") != nullptr) return list.take();
  const TensorMeta& left = input_meta(graph, node, 0);
  const TensorMeta& right = input_meta(graph, node, 1);
  const auto add = [&](const std::optional<Split>& left_split, const std::optional<Split>& right_split,
                       const std::optional<Split>& output) {
    if (!left_split || !right_split || !output) return;
    std::vector<Split> inputs = list.replicated_inputs();
    inputs[0] = *left_split;
    inputs[1] = *right_split;
    list.add(inputs, *output);
  };
  const auto split = [&](const TensorMeta& tensor, int dim) {
    require(dim < tensor.rank(), node, "a tensor has too few dims");
    return dim < 0 ? std::optional(Split::replicate()) : aligned_shard(tensor, dim);
  };
  if (left.rank() == 3 && right.rank() == 3) add(Split::shard(0), Split::shard(0), Split::shard(0));
  for (const ProductIndex& index : grouped_indices(left.rank(), right.rank())) {
    const std::optional<Split> output =
        index.output < 0 ? std::optional(Split::partial()) : split(output_meta(node), index.output);
    add(split(left, index.left), split(right, index.right), output);
  }
  add(Split::partial(), Split::replicate(), Split::partial());
  add(Split::replicate(), Split::partial(), Split::partial());
  return list.take();
}

/// _scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, …) of 8-bit floats, with one scale for a whole operand
/// or one per row of the left and column of the right. Finer scales, and what is added to the product, stay replicated.
Strategies scaled_mm(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  if (node.inputs.size() != 4) return list.take();
  const TensorMeta& left = input_meta(graph, node, 0);
  const TensorMeta& right = input_meta(graph, node, 1);
  require(left.rank() == 2 && right.rank() == 2 && output_meta(node).rank() == 2, node, "not matrices");
  const std::vector<std::int64_t> per_row = {size_of(output_meta(node), 0), 1};
  const std::vector<std::int64_t> per_column = {1, size_of(output_meta(node), 1)};
  const TensorMeta& left_scale = input_meta(graph, node, 2);
  const TensorMeta& right_scale = input_meta(graph, node, 3);
  const bool by_row = left_scale.shape == per_row && right_scale.shape == per_column;
  if (!by_row && (left_scale.numel() != 1 || right_scale.numel() != 1)) return list.take();

  const Split whole = Split::replicate();
  list.add({Split::shard(0), whole, by_row ? Split::shard(0) : whole, whole}, Split::shard(0));
  if (const std::optional<Split> column = aligned_shard(right, 1)) {
    list.add({whole, *column, whole, by_row ? Split::shard(1) : whole}, *column);
  }
  const std::optional<Split> left_inner = aligned_shard(left, 1);
  const std::optional<Split> right_inner = aligned_shard(right, 0);
  if (left_inner && right_inner) list.add({*left_inner, *right_inner, whole, whole}, Split::partial());
  return list.take();
}

constexpr RuleEntry kRules[] = {
    {"aten._scaled_mm.default", scaled_mm},
    {"aten._grouped_mm.default", grouped_mm},
    {"aten._int_mm.default", mm},
    {"aten.addmm.default", addmm},
    {"aten.addmv.default", addmv},
    {"aten.baddbmm.default", baddbmm},
    {"aten.bmm.default", bmm},
    {"aten.dot.default", dot},
    {"aten.linear.default", linear},
    {"aten.mm.default", mm},
    {"aten.mv.default", mv},
    {"aten.vdot.default", dot},
};

}  // namespace

std::span<const RuleEntry> matmul_rules() { return kRules; }

}  // namespace autopar::costs
