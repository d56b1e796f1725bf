#pragma once

#include <cstdint>
#include <vector>

#include "costs/graph.h"
#include "costs/mesh.h"
#include "costs/placement.h"
#include "costs/redistribute.h"

namespace autopar::costs {

/// What a training step keeps of each parameter, in bytes per element beyond the parameter itself. The default is Adam
/// in mixed precision (Micikevicius et al. 2018; Rajbhandari et al., ZeRO, 2020): float32 momentum and variance, and a
/// float32 master copy where the parameter itself is narrower.
struct OptimizerState {
  std::int64_t bytes_per_element = 8;
  std::int64_t master_bytes_per_element = 4;
};

/// Bytes on one device of a parameter and its optimizer state, both with the same placements.
std::int64_t parameter_bytes(const TensorMeta& parameter, const Placements& placements, const Mesh& mesh,
                             const OptimizerState& optimizer);

/// Whether the elements lie in memory in the order of the dims, without gaps: collectives copy what does not.
bool is_row_major(const TensorMeta& tensor);

/// When a redistribution holds buffers. One that is waited for where it starts does it all at once. Else it runs up to
/// its last collective when it starts (what does not communicate comes behind that), which then is in flight, and
/// brings in order what has come when it finishes.
enum class Making : std::uint8_t { kAtOnce, kStart, kFlight, kFinish };
inline constexpr std::size_t kNumMakings = 4;

/// The most that the buffers of a redistribution take beside the tensor that it starts from and the one that it gives:
/// what comes between two steps, the padding of uneven pieces, and the copies that bring pieces in order where the cut
/// dim is not the first or the tensor is not row-major (io/pytorch/autopar/collectives.py). With `frees_source` the
/// tensor that it starts from is one of the buffers, and goes as soon as it is read; a collective that needs no copy of
/// it holds it while it is in flight.
std::int64_t making_bytes(const TensorMeta& tensor, const std::vector<RedistributeStep>& steps, const Mesh& mesh,
                          bool frees_source, Making making = Making::kAtOnce);

}  // namespace autopar::costs
