#pragma once

#include <cstdint>
#include <vector>

#include "costs/cluster.h"
#include "costs/collective.h"
#include "costs/dtype.h"
#include "costs/graph.h"
#include "costs/mesh.h"
#include "costs/strategy.h"

namespace autopar::costs {

/// One all-reduce inside a local program.
struct ProgramAllReduce {
  int mesh_dim = 0;
  DType dtype = DType::kFloat32;
  std::int64_t bytes = 0;    ///< of the buffer on one device
  std::int64_t time_ps = 0;  ///< predicted, with a launch gap
};

/// The all-reduces inside `node` under `strategy` in the order in which they run (LocalProgram,
/// docs/local-programs.md): tensor by tensor, each along one mesh dim after the other. None for plain ops. They are in
/// float32, or in float64 where the op is. What the program computes is priced as the op itself (costs/compute.h).
/// `collectives` must be made for `mesh`.
std::vector<ProgramAllReduce> program_all_reduces(const Graph& graph, const Node& node, const Strategy& strategy,
                                                  const Mesh& mesh, const Device& device,
                                                  const CollectiveModel& collectives);

/// Their predicted time in ps.
std::int64_t total_ps(const std::vector<ProgramAllReduce>& all_reduces);

/// Whether some strategies of `node` need memory beside inputs and outputs (workspace_bytes).
bool may_need_workspace(const Node& node);

/// The most bytes that `node` under `strategy` holds beside inputs and outputs while it runs: what its local program
/// makes (io/pytorch/autopar/local_programs.py), and the terms of a loss. Other kernels' own buffers are not known.
std::int64_t workspace_bytes(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh);

}  // namespace autopar::costs
