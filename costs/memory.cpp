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

/// Bytes of what a step makes.
struct StepBytes {
  std::int64_t reading = 0;    ///< the most while its input is read: the copy that is sent, else what it gives
  std::int64_t moving = 0;     ///< then the most until the collective is done
  std::int64_t arranging = 0;  ///< the most while what has come is brought in order
  bool is_copied = false;      ///< a copy of the input is sent, so that the input may go
  std::int64_t later() const { return std::max(moving, arranging); }
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
      const std::int64_t in_order = is_in_order(tensor, step.from, step, mesh) ? blocks : 2 * blocks;
      if (is_row_major && blocks == after) return {blocks, blocks, in_order, false};
      return {before, before + blocks, in_order, true};
    }
    case Kind::kReduceScatter: {  // a padded copy, one in blocks, and the own piece of the sum
      const bool is_padded = blocks > before;
      const bool is_copied = !is_row_major || !is_in_order(tensor, step.to, step, mesh);
      if (!is_padded && !is_copied) return {after, after, after, false};
      return {blocks, blocks + (is_padded && is_copied ? std::max(blocks, after) : after), after, true};
    }
    case Kind::kAllToAll: {  // a padded copy, one in blocks, the blocks of the others, and these in order
      if (blocks > before || !is_row_major || !is_in_order(tensor, step.to, step, mesh)) {
        return {blocks, 2 * blocks, 2 * blocks, true};
      }
      const bool is_joined = blocks > after || !is_in_order(tensor, step.from, step, mesh);
      return {blocks, blocks, is_joined ? 2 * blocks : blocks, false};
    }
    case Kind::kAllReduce:
      if (!is_row_major) return {before, before + after, after, true};
      break;
    case Kind::kSlice:
    case Kind::kZero:
      break;
  }
  return {after, after, after, false};
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
                          bool frees_source, Making making) {
  if (steps.empty()) return 0;
  const std::ptrdiff_t last = last_collective(steps);
  const bool flies = making != Making::kAtOnce && last >= 0;
  if (!flies && making != Making::kAtOnce && making != Making::kStart) return 0;
  std::int64_t most = 0;
  std::int64_t input = frees_source ? local_bytes(tensor, steps.front().from, mesh) : 0;
  bool is_in_rows = is_row_major(tensor);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepBytes bytes = step_bytes(tensor, steps[i], is_in_rows, mesh);
    const auto step = static_cast<std::ptrdiff_t>(i);
    if (!flies || (making == Making::kStart && step < last) || (making == Making::kFinish && step > last)) {
      most = std::max({most, input + bytes.reading, bytes.later()});
    } else if (step == last) {
      if (making == Making::kStart) most = std::max({most, input + bytes.reading, bytes.moving});
      if (making == Making::kFlight) most = bytes.is_copied ? bytes.moving : input + bytes.moving;
      if (making == Making::kFinish) most = bytes.arranging;
    }
    // Every step gives a tensor of its own in row-major order.
    input = local_bytes(tensor, steps[i].to, mesh);
    is_in_rows = true;
  }
  return std::max<std::int64_t>(most - input, 0);
}

}  // namespace autopar::costs
