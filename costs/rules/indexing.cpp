#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Reading and writing by index. A dim that is not indexed can be cut in all tensors that have it. Positions are
/// global, so an indexed dim stays whole, but where a local program masks the positions of other devices. The index
/// itself can be cut where each of its elements works alone.
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;

/// The advanced indexing of index(self, indices) and index_put(self, indices, values): where dims of self and of the
/// broadcast index come to stand in the indexed result.
struct Indexing {
  std::vector<std::int64_t> indexed;  ///< dims of self with an index
  std::int64_t index_rank = 0;        ///< of the indices broadcast together
  std::int64_t index_at = 0;          ///< first dim of the result that comes from the index
  std::size_t num_indices = 0;
  TensorMeta result;   ///< shape of self[indices]
  bool exact = false;  ///< false: masks, whose result depends on the data

  /// Dim of the result that dim `dim` of self (not indexed) becomes.
  std::int64_t result_dim(std::int64_t dim) const {
    const auto before = std::count_if(indexed.begin(), indexed.end(), [&](std::int64_t i) { return i < dim; });
    const std::int64_t kept = dim - before;
    return kept < index_at ? kept : kept + index_rank;
  }
};

Indexing read_indexing(const Graph& graph, const Node& node) {
  Indexing indexing;
  const Arg* argument = find_arg(node, 1, "indices");
  const Arg::List* list = argument ? argument->as_list() : nullptr;
  require(list != nullptr, node, "indices must be a list");
  const TensorMeta& self = input_meta(graph, node, 0);
  require(static_cast<std::int64_t>(list->size()) <= self.rank(), node, "more indices than dims");
  std::vector<std::int64_t> broadcast;
  indexing.exact = true;
  for (std::size_t dim = 0; dim < list->size(); ++dim) {
    const ValueRef* ref = (*list)[dim].as_tensor();
    if (!ref) continue;
    const TensorMeta& index = graph.meta(*ref);
    indexing.exact &= index.dtype != DType::kBool && index.dtype != DType::kUInt8;
    indexing.indexed.push_back(static_cast<std::int64_t>(dim));
    ++indexing.num_indices;
    if (index.shape.size() > broadcast.size())
      broadcast.insert(broadcast.begin(), index.shape.size() - broadcast.size(), 1);
    for (std::size_t i = 0; i < index.shape.size(); ++i) {
      std::int64_t& size = broadcast[broadcast.size() - index.shape.size() + i];
      size = std::max(size, index.shape[i]);
    }
  }
  if (indexing.indexed.empty()) indexing.exact = false;
  if (!indexing.exact) return indexing;
  indexing.index_rank = static_cast<std::int64_t>(broadcast.size());
  const bool adjacent =
      indexing.indexed.back() - indexing.indexed.front() + 1 == static_cast<std::int64_t>(indexing.indexed.size());
  // Indices that are not adjacent put their dims in front (as in NumPy).
  indexing.index_at = adjacent ? indexing.indexed.front() : 0;
  for (std::int64_t dim = 0; dim < self.rank(); ++dim) {
    if (!contains(indexing.indexed, dim)) indexing.result.shape.push_back(size_of(self, dim));
  }
  indexing.result.shape.insert(indexing.result.shape.begin() + indexing.index_at, broadcast.begin(), broadcast.end());
  return indexing;
}

/// Splits of the index tensors when dim `dim` of the broadcast index is cut.
std::vector<Split> index_splits(const Graph& graph, const Node& node, const Indexing& indexing, std::int64_t dim) {
  TensorMeta broadcast;
  broadcast.shape.assign(indexing.result.shape.begin() + indexing.index_at,
                         indexing.result.shape.begin() + indexing.index_at + indexing.index_rank);
  std::vector<Split> splits;
  for (std::size_t i = 1; i <= indexing.num_indices; ++i) {
    splits.push_back(broadcast_shard(input_meta(graph, node, i), broadcast, dim));
  }
  return splits;
}

Strategies index(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const Indexing indexing = read_indexing(graph, node);
  if (!indexing.exact) return list.take();
  const auto with_self = [&](Split self) {
    std::vector<Split> inputs = list.replicated_inputs();
    inputs[0] = self;
    return inputs;
  };
  for (std::int64_t dim = 0; dim < input_meta(graph, node, 0).rank(); ++dim) {
    if (!contains(indexing.indexed, dim))
      list.add(with_self(Split::shard(dim)), Split::shard(indexing.result_dim(dim)));
  }
  for (std::int64_t dim = 0; dim < indexing.index_rank; ++dim) {
    std::vector<Split> inputs{Split::replicate()};
    const std::vector<Split> indices = index_splits(graph, node, indexing, dim);
    inputs.insert(inputs.end(), indices.begin(), indices.end());
    list.add(std::move(inputs), Split::shard(indexing.index_at + dim));
  }
  list.add(with_self(Split::partial()), Split::partial());
  return list.take();
}

/// index_put(self, indices, values, accumulate). Accumulating is linear in self and values together, so cut values may
/// meet a self that is pending: summed up, self counts once.
Strategies index_put(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const Indexing indexing = read_indexing(graph, node);
  const std::size_t values = 1 + indexing.num_indices;
  if (!indexing.exact || node.inputs.size() != values + 1) return list.take();
  const bool accumulate = bool_arg(node, 3, "accumulate", false);
  const TensorMeta& value = input_meta(graph, node, values);
  for (std::int64_t dim = 0; dim < input_meta(graph, node, 0).rank(); ++dim) {
    if (contains(indexing.indexed, dim)) continue;
    std::vector<Split> inputs = list.replicated_inputs();
    inputs[0] = Split::shard(dim);
    inputs[values] = broadcast_shard(value, indexing.result, indexing.result_dim(dim));
    list.add(std::move(inputs), Split::shard(dim));
  }
  std::vector<Split> pending = list.replicated_inputs();
  pending[0] = pending[values] = Split::partial();
  list.add(std::move(pending), Split::partial());
  for (std::int64_t dim = 0; accumulate && dim < indexing.index_rank; ++dim) {
    std::vector<Split> inputs{Split::partial()};
    const std::vector<Split> indices = index_splits(graph, node, indexing, dim);
    inputs.insert(inputs.end(), indices.begin(), indices.end());
    inputs.push_back(broadcast_shard(value, indexing.result, indexing.index_at + dim));
    list.add(std::move(inputs), Split::partial());
  }
  return list.take();
}

/// index_select(self, dim, index)
Strategies index_select(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t rank = input_meta(graph, node, 0).rank();
  const std::int64_t along = dim_arg(node, 1, "dim", 0, rank);
  for (std::int64_t dim = 0; dim < rank; ++dim) {
    if (dim != along) list.add({Split::shard(dim), Split::replicate()}, Split::shard(dim));
  }
  list.add({Split::replicate(), Split::shard(0)}, Split::shard(along));
  list.add({Split::partial(), Split::replicate()}, Split::partial());
  return list.take();
}

/// Dims in which all tensors of a gather or scatter have one size: there element i only meets element i.
bool aligned(const Graph& graph, const Node& node, std::int64_t dim) {
  const std::int64_t size = size_of(input_meta(graph, node, 0), dim);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorMeta& tensor = input_meta(graph, node, i);
    if (tensor.rank() <= dim || size_of(tensor, dim) != size) return false;
  }
  return true;
}

StrategyList aligned_dims(const Graph& graph, const Node& node, std::int64_t along) {
  StrategyList list(graph, node);
  for (std::int64_t dim = 0; dim < input_meta(graph, node, 0).rank(); ++dim) {
    if (dim == along || !aligned(graph, node, dim)) continue;
    list.add(std::vector<Split>(node.inputs.size(), Split::shard(dim)), Split::shard(dim));
  }
  return list;
}

std::int64_t along(const Graph& graph, const Node& node) {
  return dim_arg(node, 1, "dim", 0, input_meta(graph, node, 0).rank());
}

/// gather(self, dim, index)
Strategies gather(const Graph& graph, const Node& node) {
  const std::int64_t dim = along(graph, node);
  StrategyList list = aligned_dims(graph, node, dim);
  list.add({Split::replicate(), Split::shard(dim)}, Split::shard(dim));
  list.add({Split::partial(), Split::replicate()}, Split::partial());
  // What other devices hold is masked: the likelihood of one class of many, without whole rows.
  list.add({Split::shard(dim), Split::replicate()}, {Split::partial()}, {"gather_masked"});
  return list.take();
}

/// scatter(self, dim, index, src): each element comes from self or from src.
Strategies scatter(const Graph& graph, const Node& node) {
  StrategyList list = aligned_dims(graph, node, along(graph, node));
  list.add({Split::partial(), Split::replicate(), Split::partial()}, Split::partial());
  return list.take();
}

/// scatter(self, dim, index, value): zeros keep a pending sum pending.
Strategies scatter_value(const Graph& graph, const Node& node) {
  StrategyList list = aligned_dims(graph, node, along(graph, node));
  if (number_arg(node, 3, "value") == 0.0) list.add({Split::partial(), Split::replicate()}, Split::partial());
  return list.take();
}

/// Whether a scatter_reduce(self, dim, index, src, reduce, include_self) is `reduce`.
bool reduces_by(const Node& node, std::string_view reduce) {
  const Arg* given = find_arg(node, 4, "reduce");
  const std::string* name = given ? std::get_if<std::string>(&given->value) : nullptr;
  return name != nullptr && *name == reduce;
}

/// Sums and means are linear in self and src together. Where self takes part, cut rows of src give pending results.
Strategies scatter_reduce(const Graph& graph, const Node& node) {
  const std::int64_t dim = along(graph, node);
  StrategyList list = aligned_dims(graph, node, dim);
  const bool aligned_rows = size_of(input_meta(graph, node, 1), dim) == size_of(input_meta(graph, node, 2), dim);
  const bool with_self = aligned_rows && bool_arg(node, 5, "include_self", true);
  const Split rows = Split::shard(dim);
  if (reduces_by(node, "sum") || reduces_by(node, "mean")) {
    list.add({Split::partial(), Split::replicate(), Split::partial()}, Split::partial());
  }
  if (with_self && reduces_by(node, "sum")) list.add({Split::partial(), rows, rows}, Split::partial());
  for (const auto& [name, op] : {std::pair{"amax", ReduceOp::kMax}, std::pair{"amin", ReduceOp::kMin}}) {
    if (with_self && reduces_by(node, name)) list.add({Split::replicate(), rows, rows}, Split::partial(op));
  }
  return list.take();
}

/// scatter_add(self, dim, index, src): linear in both; a cut src adds to a pending self.
Strategies scatter_add(const Graph& graph, const Node& node) {
  const std::int64_t dim = along(graph, node);
  StrategyList list = aligned_dims(graph, node, dim);
  list.add({Split::partial(), Split::replicate(), Split::partial()}, Split::partial());
  if (size_of(input_meta(graph, node, 1), dim) == size_of(input_meta(graph, node, 2), dim)) {
    list.add({Split::partial(), Split::shard(dim), Split::shard(dim)}, Split::partial());
  }
  list.add({Split::shard(dim), Split::replicate(), Split::replicate()}, {Split::shard(dim)}, {"scatter_add_masked"});
  return list.take();
}

/// index_copy(self, dim, index, source): linear in self and source together.
StrategyList indexed_rows(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t dim = along(graph, node);
  for (std::int64_t other = 0; other < input_meta(graph, node, 0).rank(); ++other) {
    if (other != dim) list.add({Split::shard(other), Split::replicate(), Split::shard(other)}, Split::shard(other));
  }
  list.add({Split::partial(), Split::replicate(), Split::partial()}, Split::partial());
  return list;
}

Strategies index_copy(const Graph& graph, const Node& node) { return indexed_rows(graph, node).take(); }

/// index_add(self, dim, index, source): a cut source adds to a pending self.
Strategies index_add(const Graph& graph, const Node& node) {
  StrategyList list = indexed_rows(graph, node);
  list.add({Split::partial(), Split::shard(0), Split::shard(along(graph, node))}, Split::partial());
  return list.take();
}

/// index_fill(self, dim, index, value)
Strategies index_fill(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t dim = along(graph, node);
  for (std::int64_t other = 0; other < input_meta(graph, node, 0).rank(); ++other) {
    if (other != dim) list.add({Split::shard(other), Split::replicate()}, Split::shard(other));
  }
  if (number_arg(node, 3, "value") == 0.0) list.add({Split::partial(), Split::replicate()}, Split::partial());
  return list.take();
}

/// one_hot(self, num_classes): adds a dim behind.
Strategies one_hot(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const bool given = int_arg(node, 1, "num_classes", -1) >= 0;  // else the classes depend on all the data
  for (std::int64_t dim = 0; given && dim < input_meta(graph, node, 0).rank(); ++dim) {
    list.add({Split::shard(dim)}, Split::shard(dim));
  }
  return list.take();
}

constexpr RuleEntry kRules[] = {
    {"aten._index_put_impl.default", index_put},
    {"aten._unsafe_index.Tensor", index},
    {"aten._unsafe_index_put.default", index_put},
    {"aten.gather.default", gather},
    {"aten.index.Tensor", index},
    {"aten.index_add.default", index_add},
    {"aten.index_copy.default", index_copy},
    {"aten.index_fill.int_Scalar", index_fill},
    {"aten.index_put.default", index_put},
    {"aten.index_select.default", index_select},
    {"aten.one_hot.default", one_hot},
    {"aten.scatter.src", scatter},
    {"aten.scatter.value", scatter_value},
    {"aten.scatter_add.default", scatter_add},
    {"aten.scatter_reduce.two", scatter_reduce},
};

}  // namespace

std::span<const RuleEntry> indexing_rules() { return kRules; }

}  // namespace autopar::costs
