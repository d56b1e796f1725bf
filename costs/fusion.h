#pragma once

#include <vector>

#include "costs/graph.h"

namespace autopar::costs {

/// Fills in Node::fusion: which ops run as one kernel when forward and backward are each compiled (torch.compile). A
/// model of Inductor's scheduler (torch/_inductor/scheduler.py; Ansel et al., PyTorch 2, 2024), decided on the graph
/// alone, so that it holds for every plan:
///
/// - Pointwise ops, reductions, look-ups and creation ops of one phase are fused; views vanish. Matmuls, attention,
///   convolutions, sorts, scans, scatters, unknown ops and those of complex numbers (for which Inductor makes no code)
///   are kernels of their own.
/// - An op joins the kernels that it reads from (vertical fusion), unless one of its other inputs depends on them. Else
///   it joins one that reads the same tensor over as many elements (horizontal fusion).
/// - A kernel has one iteration space: pointwise, or rows that are reduced. Reductions of the innermost dims join what
///   they read, and what is computed from the results joins them. A reduction of other dims takes with it only what
///   nothing else reads.
/// - A tensor is written if another kernel, the other phase or a graph output needs it, and read once per kernel, by
/// the
///   op that reads most of it.
///
/// Not modelled: Inductor also computes cheap tensors anew in every kernel that reads them, where this writes and reads
/// them; and rows that do not fit into the caches are read once per pass.
///
/// What a plan does to fused kernels is priced by each op's strategy (costs/compute.h): a pending sum is reduced before
/// it goes on, so it is written and read; local programs with all-reduces inside are not fused. Other redistributions
/// inside a kernel are taken not to be there: in plans of value they stand beside matmuls, which read and write anyway.
/// `compiled`: per node, whether it is in a compiled part; empty: all are.
void fuse(Graph& graph, const std::vector<char>& compiled = {});

}  // namespace autopar::costs
