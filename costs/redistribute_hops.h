#pragma once

#include <vector>

#include "costs/cluster.h"
#include "costs/collective.h"
#include "costs/graph.h"
#include "costs/mesh.h"
#include "costs/placement.h"
#include "costs/redistribute.h"

/// The single steps between placements of one tensor.
///
/// On one mesh dim, or on several at once over their flattened group:
///   S(d) -> R      all-gather (on several mesh dims the tensor dims may differ: the blocks are put in place
///   afterwards) P    -> R      all-reduce P    -> S(d)   reduce-scatter (on several mesh dims likewise) S(a) -> S(b)
///   all-to-all (on several mesh dims all from a to b)
/// and on one mesh dim without communication:
///   R -> S(d)      slice: a view, free
///   R -> P(sum)    zero: the first device keeps the value, the others write zeros
///
/// Cuts of one tensor dim nest, mesh dim 0 outermost. A step can only take off or put on the innermost cuts of a tensor
/// dim: behind an outer cut the pieces that a device needs lie in other groups (S(0)S(0) -> R S(0) would interleave).
/// A flattened group needs equal pieces, since cutting by n0 and then n1 is not cutting by n0·n1 otherwise; on a single
/// mesh dim uneven pieces are padded, as DTensor does, and the padding is paid.
///
/// A collective's time is CollectiveModel's and a launch gap, as every op pays, plus a copy of the local buffer (read
/// and write) where the cut dim isn't outermost in memory: the collectives of torch split and join along dim 0, so
/// other dims are transposed around them.
namespace autopar::costs {

/// All placements that a table has for `tensor`, ascending (RedistributeTable::states).
std::vector<Placements> redistribute_states(const TensorMeta& tensor, const Mesh& mesh);

/// Per state, the steps that lead from it to another state, in a fixed order.
std::vector<std::vector<RedistributeHop>> redistribute_hops(const TensorMeta& tensor, const Mesh& mesh,
                                                            const Device& device, const CollectiveModel& collectives,
                                                            const std::vector<Placements>& states);

}  // namespace autopar::costs
