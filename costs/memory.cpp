#include "costs/memory.h"

namespace autopar::costs {

std::int64_t parameter_bytes(const TensorMeta& parameter, const Placements& placements, const Mesh& mesh,
                             const OptimizerState& optimizer) {
  const std::int64_t element = dtype_bytes(parameter.dtype);
  const std::int64_t elements = local_bytes(parameter, placements, mesh) / element;
  const std::int64_t master = element < 4 ? optimizer.master_bytes_per_element : 0;
  return elements * (2 * element + optimizer.bytes_per_element + master);
}

}  // namespace autopar::costs
