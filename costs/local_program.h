#pragma once

#include <cstdint>

#include "costs/cluster.h"
#include "costs/collective.h"
#include "costs/graph.h"
#include "costs/mesh.h"
#include "costs/strategy.h"

namespace autopar::costs {

/// Predicted time in ps of the all-reduces inside `node` under `strategy` (LocalProgram, docs/local-programs.md), each
/// with a launch gap; 0 for plain ops. What the program computes is priced as the op itself (costs/compute.h).
/// `collectives` must be made for `mesh`.
std::int64_t local_program_ps(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                              const Device& device, const CollectiveModel& collectives);

}  // namespace autopar::costs
