#pragma once

#include <cstdint>

#include "costs/cluster.h"
#include "costs/graph.h"
#include "costs/mesh.h"
#include "costs/strategy.h"

/// Prices of ops on one device.
///
/// A roofline (Williams, Waterman, Patterson 2009) per op, unfused: max(flops / achievable rate, bytes moved /
/// achievable bandwidth) + launch gap. Bytes moved are the local inputs and outputs, but views move nothing, creation
/// ops only write, and look-ups (embedding, index, gather) read only the rows they take.
///
/// Matmul-like ops pay for tiles that do not fit (NVIDIA, "Matrix Multiplication Background User's Guide": tile and
/// wave quantization). The output is cut into tiles, 128 on a side or 64 along a dim that is no longer than that, and k
/// into slices of at most 512 that can run on different multiprocessors (split-k, stream-k). The time is the number of
/// rounds that the multiprocessors need for all (tile, slice) pairs, times one pair's time. So pieces narrower than a
/// tile cost as much as a tile. The rates are those of large matmuls in the dtype; float32 runs without TF32, as torch
/// does by default.
///
/// Where the model file gives an op's flops, they are shared out among the mesh dims along which any of its tensors is
/// a shard or a pending sum, and run at the matmul rate of the first input's dtype.
///
/// Attention runs at kAttentionShare of the matmul rate (flash kernels: 225 of 271 TFLOPS on A100, Dao 2023; 350 with
/// version 2 and 550 to 740 with version 3 or cuDNN of 795 on H100, Shah et al. 2024); causal masks halve the work and
/// the backward pass is 2.5 times the forward (it recomputes the scores).
namespace autopar::costs {

inline constexpr double kAttentionShare = 0.7;

/// Floating-point operations of `node` on the local pieces that `strategy` gives (matmul-like ops: 2·m·n·k; others: one
/// per element moved).
double local_flops(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh);

/// Predicted time in ps of `node` on one device under `strategy`. Views that keep their storage and placeholders are
/// free.
std::int64_t compute_ps(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                        const Cluster& cluster);

}  // namespace autopar::costs
