#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "costs/graph.h"
#include "costs/strategy.h"

/// What the rule families share: reading a node's arguments and collecting its strategies.
namespace autopar::costs {

/// The argument at `position` or, where the call has fewer positional arguments, the keyword argument `name`.
/// nullptr if it is neither given nor other than None: then the op's default holds.
const Arg* find_arg(const Node& node, std::size_t position, std::string_view name);

/// The same as an integer (also from a bool); `fallback` if it is not given.
std::int64_t int_arg(const Node& node, std::size_t position, std::string_view name, std::int64_t fallback);
bool bool_arg(const Node& node, std::size_t position, std::string_view name, bool fallback);
/// An integer, float or bool literal as a double; nothing if it is not given or a tensor.
std::optional<double> number_arg(const Node& node, std::size_t position, std::string_view name);
/// A list of integers; one integer counts as a list of one. Empty if it is not given.
std::vector<std::int64_t> ints_arg(const Node& node, std::size_t position, std::string_view name);
/// Index in Node::inputs of a tensor argument (of a list argument: of its first tensor); nothing if it is None or a
/// literal. Arguments that are None take no place in Node::inputs, hence the search.
std::optional<std::size_t> input_arg(const Node& node, std::size_t position, std::string_view name);

/// Throws NodeError unless `holds`.
void require(bool holds, const Node& node, std::string_view otherwise);

/// Throw NodeError if there is no such tensor.
const TensorMeta& input_meta(const Graph& graph, const Node& node, std::size_t input);
const TensorMeta& output_meta(const Node& node, std::size_t output = 0);

/// Global size of a dim. Throws std::out_of_range if there is no such dim.
std::int64_t size_of(const TensorMeta& tensor, std::int64_t dim);

/// Counts a negative dim from the end. A 0-dim tensor counts as one of rank 1, as in torch.
std::int64_t normalize_dim(std::int64_t dim, std::int64_t rank);
std::vector<std::int64_t> normalize_dims(std::vector<std::int64_t> dims, std::int64_t rank);

/// Arguments that name dims of a tensor of rank `rank`, normalised. Throw NodeError for a dim that does not exist.
std::int64_t dim_arg(const Node& node, std::size_t position, std::string_view name, std::int64_t fallback,
                     std::int64_t rank);
std::vector<std::int64_t> dims_arg(const Node& node, std::size_t position, std::string_view name, std::int64_t rank);
bool contains(const std::vector<std::int64_t>& dims, std::int64_t dim);

/// True if a tensor of this dtype can be a pending sum: its addition is the one of the numbers it holds. Not for bool
/// (addition saturates) and 8-bit floats (collectives do not add them).
bool can_be_partial(DType dtype);

/// True if casting the summands of a pending sum casts the sum. Not from fractions to integers: rounding each summand
/// is not rounding the sum.
bool cast_is_linear(DType from, DType to);

/// Split of an op's input that is broadcast to `output` (dims aligned at the right) when the output's dim `dim` is cut:
/// the matching shard, or Replicate if the input has no such dim or only one element there.
Split broadcast_shard(const TensorMeta& input, const TensorMeta& output, std::int64_t dim);

/// The strategies of one node: all-replicated first, without duplicates.
class StrategyList {
 public:
  StrategyList(const Graph& graph, const Node& node);

  /// Adds a strategy, unless it is there already or no mesh could use it: a shard of a dim with fewer than two units,
  /// or a Partial of a dtype that cannot be one. Where an output is None its split becomes Replicate.
  /// Throws NodeError if the numbers of splits are not those of inputs and outputs.
  void add(std::vector<Split> inputs, std::vector<Split> outputs, LocalProgram program = {});
  /// Adds a strategy whose outputs all have the same split.
  void add(std::vector<Split> inputs, Split output);

  /// Replicate for every input or output: what to start from where most of them are replicated.
  std::vector<Split> replicated_inputs() const;
  std::vector<Split> replicated_outputs() const;

  /// Hands the strategies over.
  std::vector<OneDimStrategy> take() { return std::move(strategies_); }

 private:
  bool is_possible(const Split& split, const TensorMeta& tensor) const;

  const Graph& graph_;
  const Node& node_;
  std::vector<OneDimStrategy> strategies_;
};

}  // namespace autopar::costs
