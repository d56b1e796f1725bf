#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "costs/cluster.h"
#include "costs/mesh.h"

/// Prices of collectives.
///
/// A collective takes latency + bytes / bandwidth (α–β: Hockney 1994; Thakur, Rabenseifner, Gropp 2005), the least over
/// the algorithms that NCCL chooses from (its tuning model: src/graph/tuning.cc), with the constants of NCCL's Simple
/// protocol. With n devices, c_l the number of units of link level l that the group touches (c_-1 = n), and level l's
/// steps c_(l-1) - c_l:
///   ring       n-1 steps (all-reduce: twice), each at its link's hop latency; moves bytes · (n-1)/n (all-reduce:
///   twice)
///              through the narrowest level, where a unit's ports add up: a node with r members has r network ports.
///   tree       all-reduce only: up and down a chain inside nodes and a binary tree across them; every byte crosses
///   each
///              unit's border twice, at kTreeShare of the ring's bandwidth.
///   multicast  all-reduce inside one switch that reduces and multicasts (NVLS): a port sends and takes bytes ·
///   (n+1)/n. pairwise   all-to-all: one send and one receive per peer; what goes to each level's peers passes the
///   device's own
///              port of that level, all levels at once.
/// tests/costs/collective_test.cpp holds the published figures that this is compared with.
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
  /// latency_s + s_per_byte · bytes.
  struct Algorithm {
    double latency_s = 0;
    double s_per_byte = 0;
  };
  /// What a group of devices looks like on the cluster. Groups of the same mesh dims can lie differently when the mesh
  /// does not fit the nodes; then this is the worst of them.
  struct Layout;
  struct Group {
    std::vector<Algorithm> gather;  ///< all-gather and reduce-scatter
    std::vector<Algorithm> all_reduce;
    std::vector<Algorithm> all_to_all;
  };

  static Layout lay_out(const Cluster& cluster, const Mesh& mesh, std::uint32_t mesh_dims);
  static Group make_group(const Cluster& cluster, const Layout& layout);

  std::vector<Group> groups_;  // by mesh_dims
};

}  // namespace autopar::costs
