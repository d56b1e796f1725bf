#pragma once

#include <cstdint>

#include "costs/graph.h"
#include "costs/mesh.h"
#include "costs/placement.h"

namespace autopar::costs {

/// What a training step keeps of each parameter, in bytes per element beyond the parameter and its gradient (both in
/// the parameter's dtype). The default is Adam in mixed precision (Micikevicius et al. 2018; Rajbhandari et al., ZeRO,
/// 2020): float32 momentum and variance, and a float32 master copy where the parameter itself is narrower.
struct OptimizerState {
  std::int64_t bytes_per_element = 8;
  std::int64_t master_bytes_per_element = 4;
};

/// Bytes on one device of a parameter, its gradient and its optimizer state, all with the same placements.
std::int64_t parameter_bytes(const TensorMeta& parameter, const Placements& placements, const Mesh& mesh,
                             const OptimizerState& optimizer);

}  // namespace autopar::costs
