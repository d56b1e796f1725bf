#pragma once

#include <cstdint>
#include <string_view>

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
/// Matmul-like ops take what the datasheet's rate allows on tiles (NVIDIA, "Matrix Multiplication Background User's
/// Guide": tile and wave quantization). The output is cut into tiles of one of cuBLAS's sizes, and k into slices where
/// that occupies more multiprocessors (split-k; the sums are added up afterwards). All multiprocessors work on a tile
/// each, wave after wave, so a last wave that few take part in costs as much as a full one, and so does a tile that the
/// matrix fills in part. A tile waits for its first operands, multiplies at the tensor cores' rate less the loading of
/// operands, which weighs more on small tiles, and is stored; where a multiprocessor has room for the sums of two
/// tiles, one is stored while the next is multiplied. The best tile size counts. float32 runs without TF32, as torch
/// does by default.
///
/// Where the model file gives an op's flops, they are shared out among the mesh dims along which any of its tensors is
/// a shard or a pending sum, and run at the rate inside large tiles in the dtype of the first input.
///
/// Attention runs at kAttentionShare of that rate (flash kernels: 225 TFLOPS on A100, Dao 2023; 350 with version 2 and
/// 550 to 740 with version 3 or cuDNN on H100, Shah et al. 2024); causal masks halve the work and the backward pass is
/// 2.5 times the forward (it recomputes the scores).
///
/// docs/cost-models.md compares matmuls with published measurements.
namespace autopar::costs {

inline constexpr double kAttentionShare = 0.65;

/// Floating-point operations of `node` on the local pieces that `strategy` gives (matmul-like ops: 2·m·n·k; others: one
/// per element moved).
double local_flops(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh);

/// Whether `op` is a matrix multiply (batched, grouped and with bias too).
bool is_matmul(std::string_view op);

/// Predicted time in ps of `node` on one device under `strategy`. Views that keep their storage and placeholders are
/// free.
std::int64_t compute_ps(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                        const Cluster& cluster);

}  // namespace autopar::costs
