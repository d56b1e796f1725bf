#pragma once

#include <cstdint>

#include "costs/cluster.h"
#include "costs/graph.h"
#include "costs/mesh.h"
#include "costs/strategy.h"

namespace autopar::costs {

/// Floating-point operations of `node` on the local pieces that `strategy` gives (matmul-like ops: 2·m·n·k; others: one
/// per element moved).
double local_flops(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh);

/// Predicted time in ps of `node` on one device under `strategy`: roofline max(flops / achievable rate, bytes moved /
/// bandwidth) + launch (Williams, Waterman, Patterson 2009). Views that keep their storage and placeholders are free.
std::int64_t compute_ps(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                        const Cluster& cluster);

}  // namespace autopar::costs
