#include "costs/local_program.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "costs/dtype.h"
#include "costs/placement.h"

namespace autopar::costs {
namespace {

/// Bytes of one tensor that the program all-reduces.
std::int64_t reduced_bytes(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                           const LocalProgram& program) {
  std::int64_t bytes = dtype_bytes(DType::kFloat32);
  if (program.reduced_input < 0) return bytes;
  const auto input = static_cast<std::size_t>(program.reduced_input);
  const std::vector<std::int64_t> shape = local_shape(graph.meta(node.inputs[input]), strategy.inputs[input], mesh);
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (static_cast<std::int64_t>(dim) != program.reduced_dim) bytes *= shape[dim];
  }
  return bytes;
}

}  // namespace

std::int64_t local_program_ps(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                              const Device& device, const CollectiveModel& collectives) {
  std::int64_t time_ps = 0;
  for (int dim = 0; dim < mesh.rank(); ++dim) {
    const LocalProgram& program = strategy.programs[static_cast<std::size_t>(dim)];
    if (program.num_all_reduces == 0) continue;
    const std::int64_t bytes = reduced_bytes(graph, node, strategy, mesh, program);
    const std::int64_t one =
        collectives.time_ps(Collective::kAllReduce, 1U << dim, bytes) + std::llround(device.launch_s * 1e12);
    time_ps += program.num_all_reduces * one;
  }
  return time_ps;
}

}  // namespace autopar::costs
