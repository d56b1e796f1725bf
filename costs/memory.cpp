#include "costs/memory.h"

#include <algorithm>

namespace autopar::costs {
namespace {

/// Whether the pieces that `step` splits or joins are blocks of the first dim: then they lie in memory as the
/// collective wants them.
bool is_in_order(const Placements& cut, const RedistributeStep& step, const Mesh& mesh) {
  for (int dim = 0; dim < mesh.rank(); ++dim) {
    if ((step.mesh_dims >> dim & 1U) != 0 && cut[dim] != Placement::shard(0)) return false;
  }
  return true;
}

/// Bytes of everything but the step's input, while it runs.
std::int64_t running_bytes(const RedistributeStep& step, std::int64_t before, std::int64_t after, const Mesh& mesh) {
  using Kind = RedistributeStep::Kind;
  switch (step.kind) {
    case Kind::kAllGather:
      return is_in_order(step.from, step, mesh) ? after : 2 * after;
    case Kind::kReduceScatter:
      return is_in_order(step.to, step, mesh) ? after : before + after;
    case Kind::kAllToAll: {
      const std::int64_t split = is_in_order(step.to, step, mesh) ? 0 : before;
      const std::int64_t joined = is_in_order(step.from, step, mesh) ? 0 : after;
      return after + std::max(split, joined);
    }
    case Kind::kAllReduce:
    case Kind::kSlice:
    case Kind::kZero:
      break;
  }
  return after;
}

}  // namespace

std::int64_t parameter_bytes(const TensorMeta& parameter, const Placements& placements, const Mesh& mesh,
                             const OptimizerState& optimizer) {
  const std::int64_t element = dtype_bytes(parameter.dtype);
  const std::int64_t elements = local_bytes(parameter, placements, mesh) / element;
  const std::int64_t master = element < 4 ? optimizer.master_bytes_per_element : 0;
  return elements * (element + optimizer.bytes_per_element + master);
}

std::int64_t making_bytes(const TensorMeta& tensor, const std::vector<RedistributeStep>& steps, const Mesh& mesh) {
  std::int64_t most = 0;
  std::int64_t between = 0;  // of the tensor that the step reads, unless it is the first
  std::int64_t result = 0;
  for (const RedistributeStep& step : steps) {
    const std::int64_t before = local_bytes(tensor, step.from, mesh);
    result = local_bytes(tensor, step.to, mesh);
    most = std::max(most, between + running_bytes(step, before, result, mesh));
    between = result;
  }
  return std::max<std::int64_t>(most - result, 0);
}

}  // namespace autopar::costs
