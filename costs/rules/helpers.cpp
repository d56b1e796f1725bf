#include "costs/rules/helpers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "costs/rules/rule.h"

namespace autopar::costs {
namespace {

std::int64_t checked_dim(const Node& node, std::int64_t dim, std::int64_t rank) {
  const std::int64_t found = normalize_dim(dim, rank);
  if (found < 0 || found >= std::max<std::int64_t>(rank, 1)) {
    throw NodeError(fmt::format("{}: {}: dim {} of a tensor of {} dims", node.key, node.op, dim, rank));
  }
  return found;
}

bool holds_tensor(const Arg& arg) {
  if (const Arg::List* list = arg.as_list()) return std::any_of(list->begin(), list->end(), holds_tensor);
  return arg.is_tensor();
}

std::size_t count_tensors(const Arg& arg) {
  if (const Arg::List* list = arg.as_list()) {
    std::size_t count = 0;
    for (const Arg& item : *list) count += count_tensors(item);
    return count;
  }
  return arg.is_tensor() ? 1 : 0;
}

std::optional<std::int64_t> to_int(const Arg& arg) {
  if (const std::int64_t* value = arg.as_int()) return *value;
  if (const bool* value = arg.as_bool()) return *value ? 1 : 0;
  return std::nullopt;
}

}  // namespace

const Arg* find_arg(const Node& node, std::size_t position, std::string_view name) {
  const Arg* found = nullptr;
  if (position < node.args.size()) {
    found = &node.args[position];
  } else {
    for (const auto& [key, arg] : node.kwargs) {
      if (key == name) found = &arg;
    }
  }
  return found == nullptr || found->is_none() ? nullptr : found;
}

std::int64_t int_arg(const Node& node, std::size_t position, std::string_view name, std::int64_t fallback) {
  const Arg* arg = find_arg(node, position, name);
  return arg == nullptr ? fallback : to_int(*arg).value_or(fallback);
}

bool bool_arg(const Node& node, std::size_t position, std::string_view name, bool fallback) {
  return int_arg(node, position, name, fallback ? 1 : 0) != 0;
}

std::optional<double> number_arg(const Node& node, std::size_t position, std::string_view name) {
  const Arg* arg = find_arg(node, position, name);
  if (arg == nullptr) return std::nullopt;
  if (const double* value = arg->as_double()) return *value;
  if (const std::optional<std::int64_t> value = to_int(*arg)) return static_cast<double>(*value);
  return std::nullopt;
}

std::vector<std::int64_t> ints_arg(const Node& node, std::size_t position, std::string_view name) {
  const Arg* arg = find_arg(node, position, name);
  if (arg == nullptr) return {};
  std::vector<std::int64_t> values;
  if (const Arg::List* list = arg->as_list()) {
    for (const Arg& item : *list) {
      if (const std::optional<std::int64_t> value = to_int(item)) values.push_back(*value);
    }
  } else if (const std::optional<std::int64_t> value = to_int(*arg)) {
    values.push_back(*value);
  }
  return values;
}

std::optional<std::size_t> input_arg(const Node& node, std::size_t position, std::string_view name) {
  const Arg* wanted = find_arg(node, position, name);
  if (wanted == nullptr || !holds_tensor(*wanted)) return std::nullopt;
  std::size_t before = 0;
  for (const Arg& arg : node.args) {
    if (&arg == wanted) return before;
    before += count_tensors(arg);
  }
  for (const auto& [key, arg] : node.kwargs) {
    if (&arg == wanted) return before;
    before += count_tensors(arg);
  }
  return std::nullopt;
}

void require(bool holds, const Node& node, std::string_view otherwise) {
  if (!holds) throw NodeError(fmt::format("{}: {}: {}", node.key, node.op, otherwise));
}

const TensorMeta& input_meta(const Graph& graph, const Node& node, std::size_t input) {
  require(input < node.inputs.size(), node, "a tensor argument is missing");
  return graph.meta(node.inputs[input]);
}

const TensorMeta& output_meta(const Node& node, std::size_t output) {
  require(output < node.outputs.size() && node.outputs[output], node, "an output is missing");
  return *node.outputs[output];
}

std::int64_t size_of(const TensorMeta& tensor, std::int64_t dim) {
  return tensor.shape.at(static_cast<std::size_t>(dim));
}

std::int64_t normalize_dim(std::int64_t dim, std::int64_t rank) {
  return dim < 0 ? dim + std::max<std::int64_t>(rank, 1) : dim;
}

std::vector<std::int64_t> normalize_dims(std::vector<std::int64_t> dims, std::int64_t rank) {
  for (std::int64_t& dim : dims) dim = normalize_dim(dim, rank);
  return dims;
}

std::int64_t dim_arg(const Node& node, std::size_t position, std::string_view name, std::int64_t fallback,
                     std::int64_t rank) {
  return checked_dim(node, int_arg(node, position, name, fallback), rank);
}

std::vector<std::int64_t> dims_arg(const Node& node, std::size_t position, std::string_view name, std::int64_t rank) {
  std::vector<std::int64_t> dims = ints_arg(node, position, name);
  for (std::int64_t& dim : dims) dim = checked_dim(node, dim, rank);
  return dims;
}

bool contains(const std::vector<std::int64_t>& dims, std::int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

bool can_be_partial(DType dtype) {
  return dtype != DType::kBool && dtype != DType::kFloat8E4M3 && dtype != DType::kFloat8E5M2;
}

bool cast_is_linear(DType from, DType to) { return !is_floating_point(from) || is_floating_point(to); }

Split broadcast_shard(const TensorMeta& input, const TensorMeta& output, std::int64_t dim) {
  const std::int64_t own = dim - (output.rank() - input.rank());
  if (own < 0 || size_of(input, own) == 1) return Split::replicate();
  return Split::shard(own);
}

StrategyList::StrategyList(const Graph& graph, const Node& node) : graph_(graph), node_(node) {
  strategies_.push_back(replicated(node));
}

void StrategyList::add(std::vector<Split> inputs, std::vector<Split> outputs, LocalProgram program) {
  require(inputs.size() == node_.inputs.size(), node_, "not the number of tensor arguments that the op takes");
  require(outputs.size() == node_.outputs.size(), node_, "not the number of outputs that the op has");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_possible(inputs[i], graph_.meta(node_.inputs[i]))) return;
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (!node_.outputs[o]) {
      outputs[o] = Split::replicate();
    } else if (!is_possible(outputs[o], *node_.outputs[o])) {
      return;
    }
  }
  OneDimStrategy strategy{std::move(inputs), std::move(outputs), program};
  if (std::find(strategies_.begin(), strategies_.end(), strategy) != strategies_.end()) return;
  strategies_.push_back(std::move(strategy));
}

void StrategyList::add(std::vector<Split> inputs, Split output) {
  add(std::move(inputs), std::vector<Split>(node_.outputs.size(), output));
}

std::vector<Split> StrategyList::replicated_inputs() const { return std::vector<Split>(node_.inputs.size()); }

std::vector<Split> StrategyList::replicated_outputs() const { return std::vector<Split>(node_.outputs.size()); }

bool StrategyList::is_possible(const Split& split, const TensorMeta& tensor) const {
  if (split.placement.is_partial()) return can_be_partial(tensor.dtype);
  if (!split.placement.is_shard()) return true;
  if (split.placement.dim() >= tensor.rank()) return false;
  const std::int64_t size = size_of(tensor, split.placement.dim());
  return size >= 2 && (split.units == 0 || split.units >= 2);
}

}  // namespace autopar::costs
