#pragma once

#include <cstdint>
#include <string_view>

#include "costs/cluster.h"
#include "costs/graph.h"
#include "costs/memory.h"
#include "costs/mesh.h"
#include "costs/strategy.h"

/// Prices of ops on one device.
///
/// A roofline (Williams, Waterman, Patterson 2009) per op: max(flops / achievable rate, bytes moved / achievable
/// bandwidth) + launch gap. Bytes moved are the local inputs and outputs, but views move nothing, creation ops only
/// write, and look-ups (embedding, index, gather) read only the rows they take.
///
/// Where ops are fused (costs/fusion.h), only the bytes count that the kernel moves, each at the op that reads or
/// writes it, and a launch at its first op; the arithmetic of pointwise ops and reductions is hidden behind them.
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
/// Attention runs at Device::attention_share of that rate; causal masks halve the work and the backward pass is 2.5
/// times the forward (it recomputes the scores).
///
/// docs/cost-models.md compares matmuls with published measurements.
namespace autopar::costs {

/// Floating-point operations of `node` on the local pieces that `strategy` gives (matmul-like ops: 2·m·n·k; others: one
/// per element moved).
double local_flops(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh);

/// Of a matrix multiply (batched, grouped and with bias too) which of Node::inputs is the left matrix; -1: `op` is
/// none.
std::int32_t left_matrix(std::string_view op);

/// Predicted time in ps of `node` on one device under `strategy`. Views that keep their storage and placeholders are
/// free.
std::int64_t compute_ps(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                        const Cluster& cluster);

/// The same for one of `pieces` pieces of a matmul, cut along the batch or, where there is none, the left matrix's
/// rows.
std::int64_t matmul_piece_ps(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                             const Cluster& cluster, std::int64_t pieces);

/// Predicted time in ps of the optimizer's step on one device's piece of a parameter: one pass that reads the gradient,
/// reads and writes the state, and writes the parameter (reading it, where there is no master copy). Fused optimizers
/// take all parameters in few launches, so none counts.
std::int64_t optimizer_ps(const TensorMeta& parameter, const Placements& placements, const Mesh& mesh,
                          const OptimizerState& optimizer, const Device& device);

}  // namespace autopar::costs
