#include "costs/memory.h"

#include <algorithm>
#include <bit>

namespace autopar::costs {
namespace {

/// Whether the blocks that `cut` makes on the step's mesh dims lie one after another in memory, as collectives want
/// them: the cut tensor dim is the same everywhere, and the dims before it have one element.
bool is_in_order(const TensorMeta& tensor, const Placements& cut, const RedistributeStep& step, const Mesh& mesh) {
  const Placement first = cut[std::countr_zero(step.mesh_dims)];
  for (int dim = 0; dim < mesh.rank(); ++dim) {
    if ((step.mesh_dims >> dim & 1U) != 0 && cut[dim] != first) return false;
  }
  const std::vector<std::int64_t> shape = local_shape(tensor, cut, mesh);
  return std::all_of(shape.begin(), shape.begin() + first.dim(), [](std::int64_t size) { return size == 1; });
}

/// The most bytes at once of what a step makes: while its input is read, and from then on.
struct StepBytes {
  std::int64_t reading = 0;
  std::int64_t later = 0;
};

/// The collective's buffer on the side with more pieces has `step.bytes`, padding included; where there is any, what is
/// given to the collective is a padded copy.
StepBytes step_bytes(const TensorMeta& tensor, const RedistributeStep& step, bool is_row_major, const Mesh& mesh) {
  using Kind = RedistributeStep::Kind;
  const std::int64_t before = local_bytes(tensor, step.from, mesh);
  const std::int64_t after = local_bytes(tensor, step.to, mesh);
  const std::int64_t blocks = step.bytes;
  switch (step.kind) {
    case Kind::kAllGather: {  // a copy of the piece, the pieces of all, and these in order
      const bool is_joined = !is_in_order(tensor, step.from, step, mesh);
      if (is_row_major && blocks == after) return {blocks, is_joined ? 2 * blocks : blocks};
      return {before, blocks + (is_joined ? std::max(before, blocks) : before)};
    }
    case Kind::kReduceScatter: {  // a padded copy, one in blocks, and the own piece of the sum
      const bool is_padded = blocks > before;
      const bool is_copied = !is_row_major || !is_in_order(tensor, step.to, step, mesh);
      if (!is_padded && !is_copied) return {after, after};
      return {blocks, blocks + (is_padded && is_copied ? std::max(blocks, after) : after)};
    }
    case Kind::kAllToAll: {  // a padded copy, one in blocks, the blocks of the others, and these in order
      if (blocks > before || !is_row_major || !is_in_order(tensor, step.to, step, mesh)) return {blocks, 2 * blocks};
      const bool is_joined = blocks > after || !is_in_order(tensor, step.from, step, mesh);
      return {blocks, is_joined ? 2 * blocks : blocks};
    }
    case Kind::kAllReduce:
      if (!is_row_major) return {before, before + after};
      break;
    case Kind::kSlice:
    case Kind::kZero:
      break;
  }
  return {after, after};
}

}  // namespace

std::int64_t parameter_bytes(const TensorMeta& parameter, const Placements& placements, const Mesh& mesh,
                             const OptimizerState& optimizer) {
  const std::int64_t element = dtype_bytes(parameter.dtype);
  const std::int64_t elements = local_bytes(parameter, placements, mesh) / element;
  const std::int64_t master = element < 4 ? optimizer.master_bytes_per_element : 0;
  return elements * (element + optimizer.bytes_per_element + master);
}

bool is_row_major(const TensorMeta& tensor) {
  std::int64_t elements = 1;
  for (std::size_t dim = tensor.shape.size(); dim-- > 0;) {
    if (tensor.shape[dim] > 1 && tensor.stride[dim] != elements) return false;
    elements *= tensor.shape[dim];
  }
  return true;
}

std::int64_t making_bytes(const TensorMeta& tensor, const std::vector<RedistributeStep>& steps, const Mesh& mesh,
                          bool frees_source) {
  if (steps.empty()) return 0;
  std::int64_t most = 0;
  std::int64_t input = frees_source ? local_bytes(tensor, steps.front().from, mesh) : 0;
  bool is_in_rows = is_row_major(tensor);
  for (const RedistributeStep& step : steps) {
    const StepBytes bytes = step_bytes(tensor, step, is_in_rows, mesh);
    most = std::max({most, input + bytes.reading, bytes.later});
    // Every step gives a tensor of its own in row-major order.
    input = local_bytes(tensor, step.to, mesh);
    is_in_rows = true;
  }
  return std::max<std::int64_t>(most - input, 0);
}

}  // namespace autopar::costs
