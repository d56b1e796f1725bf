#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "costs/cluster.h"
#include "costs/mesh.h"

namespace autopar::costs {

enum class Collective : std::uint8_t { kAllGather, kReduceScatter, kAllReduce, kAllToAll };

/// "all_gather", "reduce_scatter", "all_reduce", "all_to_all".
std::string_view collective_name(Collective collective);

/// Predicted times of collectives on a mesh laid over a cluster: the innermost mesh dim has neighbouring ranks.
class CollectiveModel {
 public:
  CollectiveModel(const Cluster& cluster, const Mesh& mesh);

  /// Time in ps of one collective over the flattened group of the mesh dims in `mesh_dims` (bit i: mesh dim i).
  /// `bytes` is the size of the larger side's local buffer: what an all-gather gives, what a reduce-scatter takes, the
  /// buffer of an all-reduce or all-to-all. Monotone in `bytes`; 0 for a group of one device.
  std::int64_t time_ps(Collective collective, std::uint32_t mesh_dims, std::int64_t bytes) const;

 private:
  /// Shape of a group on the cluster: along each link level, how many devices (or groups) of it the level joins.
  struct Group {
    std::int64_t size = 1;
    std::vector<std::int64_t> per_link;
  };

  Cluster cluster_;
  std::vector<Group> groups_;  // by mesh_dims
};

}  // namespace autopar::costs
