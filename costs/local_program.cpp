#include "costs/local_program.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "costs/placement.h"

namespace autopar::costs {
namespace {

/// One tensor that the program reduces; its dtype and bytes on one device.
ProgramAllReduce reduced_tensor(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                                const LocalProgram& program) {
  const auto input = static_cast<std::size_t>(std::max(program.reduced_input, 0));
  const TensorMeta& meta = graph.meta(node.inputs[input]);
  ProgramAllReduce one;
  one.dtype = meta.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  one.bytes = dtype_bytes(one.dtype);
  if (program.reduced_input < 0) return one;
  const std::vector<std::int64_t> shape = local_shape(meta, strategy.inputs[input], mesh);
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (static_cast<std::int64_t>(dim) != program.reduced_dim) one.bytes *= shape[dim];
  }
  return one;
}

}  // namespace

std::vector<ProgramAllReduce> program_all_reduces(const Graph& graph, const Node& node, const Strategy& strategy,
                                                  const Mesh& mesh, const Device& device,
                                                  const CollectiveModel& collectives) {
  std::vector<ProgramAllReduce> list;
  int most = 0;
  for (const LocalProgram& program : strategy.programs) most = std::max(most, program.num_all_reduces);
  for (int tensor = 0; tensor < most; ++tensor) {
    for (int dim = 0; dim < mesh.rank(); ++dim) {
      const LocalProgram& program = strategy.programs[static_cast<std::size_t>(dim)];
      if (program.num_all_reduces <= tensor) continue;
      ProgramAllReduce& one = list.emplace_back(reduced_tensor(graph, node, strategy, mesh, program));
      one.mesh_dim = dim;
      one.time_ps =
          collectives.time_ps(Collective::kAllReduce, 1U << dim, one.bytes) + std::llround(device.launch_s * 1e12);
    }
  }
  return list;
}

std::int64_t total_ps(const std::vector<ProgramAllReduce>& all_reduces) {
  std::int64_t sum = 0;
  for (const ProgramAllReduce& one : all_reduces) sum += one.time_ps;
  return sum;
}

}  // namespace autopar::costs
