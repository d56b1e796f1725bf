#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "costs/graph.h"
#include "costs/mesh.h"
#include "costs/placement.h"

namespace autopar::costs {

/// Placement of one tensor in a one-mesh-dim strategy, with what must hold for a shard to be exact.
struct Split {
  Placement placement;
  /// How many units the sharded dim consists of that may not be torn apart; 0: its size. A view that splits a dim of
  /// B*S into (B, S) can carry a shard only in units of S elements: units = B.
  std::int64_t units = 0;
  /// True if all pieces must be equal: units divisible by the product of the mesh dims that cut this dim.
  bool even = false;

  static Split replicate() { return {}; }
  static Split partial(ReduceOp op = ReduceOp::kSum) { return {Placement::partial(op)}; }
  static Split shard(std::int64_t dim) { return {Placement::shard(dim)}; }
  static Split even_shard(std::int64_t dim, std::int64_t units = 0) { return {Placement::shard(dim), units, true}; }
  bool operator==(const Split&) const = default;
};

/// What runs on the local pieces instead of the plain op, where that alone would be wrong (docs/local-programs.md).
struct LocalProgram {
  std::string_view name;  ///< empty: the plain op
  /// The program all-reduces, along the mesh dim, `num_all_reduces` float32 tensors of the local shape of input
  /// `reduced_input` without its dim `reduced_dim`; scalars if reduced_input is -1.
  int num_all_reduces = 0;
  int reduced_input = -1;
  std::int64_t reduced_dim = -1;
  bool operator==(const LocalProgram&) const = default;
};

/// A valid way to run a node on the devices along one mesh dim: if the inputs have these placements, running the local
/// program (mostly the plain op) on the local pieces gives outputs with those placements.
struct OneDimStrategy {
  std::vector<Split> inputs;   ///< one per Node::inputs
  std::vector<Split> outputs;  ///< one per Node::outputs; for a None output Replicate
  LocalProgram program = {};
  std::vector<std::string> mesh_dims = {};  ///< names of the mesh dims along which it may be chosen; empty: all
  bool operator==(const OneDimStrategy&) const = default;
};

/// Whether what is listed for `mesh_dims` (names; empty: all) may be chosen along the mesh dim called `name`.
bool is_for(const std::vector<std::string>& mesh_dims, const std::string& name);

/// A strategy on the whole mesh: one one-dim strategy per mesh dim.
struct Strategy {
  std::vector<Placements> inputs;
  std::vector<Placements> outputs;
  /// Per mesh dim, the index of the one-dim strategy: the hierarchy that the search branches on.
  std::array<std::uint16_t, kMaxMeshDims> one_dim{};
  std::array<LocalProgram, kMaxMeshDims> programs{};  ///< per mesh dim
};

/// All combinations of `one_dim` over the mesh's dims that are legal: no device gets an empty piece of any input or
/// output and what each Split asks for holds. A mesh dim of size 1 gets the first one-dim strategy only, as Replicate
/// (they are all the same there, and free). Order: lexicographic by one_dim, mesh dim 0 first. The all-replicated
/// strategy is first if one_dim[0] is replicated.
std::vector<Strategy> combine(const Graph& graph, const Node& node, const std::vector<OneDimStrategy>& one_dim,
                              const Mesh& mesh);

}  // namespace autopar::costs
