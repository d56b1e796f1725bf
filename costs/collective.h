#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "costs/cluster.h"
#include "costs/mesh.h"

/// Prices of collectives.
///
/// The least over the algorithms and protocols that NCCL chooses from (its tuning model: src/graph/tuning.cc), with n
/// devices, c_l the number of units of link level l that the group touches (c_-1 = n), and c_(l-1) - c_l steps in level
/// l:
///   ring       latency + bytes / bandwidth (α–β: Hockney 1994; Thakur, Rabenseifner, Gropp 2005). n-1 steps
///              (all-reduce: twice), each at its link's hop latency; moves bytes · (n-1)/n (all-reduce: twice) through
///              the narrowest level, where a unit's ports add up: a node with r members has r network ports.
///   tree       all-reduce only: up and down a chain inside nodes and a binary tree across them; every byte crosses
///              each unit's border twice.
///   multicast  all-reduce inside one switch that reduces and multicasts (NVLS): a port sends and takes
///              bytes · (n+1)/n.
///   pairwise   all-to-all: one send and one receive per peer; what goes to each level's peers passes the device's own
///              port of that level, all levels at once.
/// Tree and multicast send a message through a pipeline, chunk by chunk. Small chunks cost a handover each, large ones
/// delay the stages behind; with the best size both together add 2·√(handover · bytes/bandwidth) (pipelined broadcast:
/// Chan, Heimlich, Purkayastha, van de Geijn 2007), where the handover is the hop latency of the outermost link. A
/// ring's pieces are bytes/n: it needs no further pipeline.
/// Rings and trees also come in NCCL's low-latency protocol (LL), which sends a flag beside every four bytes instead of
/// synchronising per chunk: short latencies, low bandwidth.
/// docs/cost-models.md compares all this with published measurements,
/// tests/costs/published_collectives_test.cpp makes that table.
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
  /// latency_s + x + 2·√(handover_s · x) with x = s_per_byte · bytes.
  struct Algorithm {
    double latency_s = 0;
    double s_per_byte = 0;
    double handover_s = 0;  ///< of a pipeline's chunk; 0: not a pipeline
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
  /// The levels that a group crosses.
  struct Path;
  static Group make_group(const Cluster& cluster, const Layout& layout);
  static void add_rings_and_trees(const Path& path, Protocol Link::*protocol, double ring_bandwidth,
                                  double tree_bandwidth, Group& group);

  std::vector<Group> groups_;  // by mesh_dims
};

}  // namespace autopar::costs
