#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "costs/collective.h"
#include "costs/graph.h"
#include "costs/mesh.h"
#include "costs/placement.h"

namespace autopar::costs {

/// One hop of a redistribution: a collective over some mesh dims, or a local step (a slice of what is there, or zeroing
/// all but one copy) that moves no bytes.
struct RedistributeStep {
  enum class Kind : std::uint8_t { kAllGather, kReduceScatter, kAllReduce, kAllToAll, kSlice, kZero };
  Kind kind = Kind::kSlice;
  std::uint32_t mesh_dims = 0;  ///< bit i: mesh dim i; several: one collective over the flattened group
  Placements from;              ///< of the whole tensor, before the step
  Placements to;                ///< and after
  std::int64_t bytes = 0;       ///< as CollectiveModel::time_ps counts them; 0 for a local step
  std::int64_t time_ps = 0;
};

/// "all_gather", ..., "slice", "zero".
std::string_view step_name(RedistributeStep::Kind kind);

/// Cheapest paths between all placements of tensors of one shape and dtype.
class RedistributeTable {
 public:
  static constexpr std::int64_t kUnreachable = INT64_MAX / 4;

  /// All legal placements of the tensor, ascending; includes Partial(op) for the reduce ops asked for.
  const std::vector<Placements>& states() const { return states_; }
  /// Index in states(); -1 if not there.
  int index_of(const Placements& placements) const;
  /// Time in ps of the cheapest path; kUnreachable if there is none (towards a Partial of another op than sum, say).
  /// time_ps(i, i) = 0, and the triangle inequality holds.
  std::int64_t time_ps(int from, int to) const { return times_[index(from, to)]; }
  /// The steps of that path, in order; ties go to fewer collectives, then to the first in a fixed order.
  std::vector<RedistributeStep> path(int from, int to) const;

 private:
  friend class Redistributor;
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * states_.size() + static_cast<std::size_t>(to);
  }

  std::vector<Placements> states_;
  std::vector<std::int64_t> times_;                  // |states|²
  std::vector<std::int32_t> first_step_;             // |states|²: index into steps_ of the path's first hop, -1 none
  std::vector<RedistributeStep> steps_;              // all hops between states
};

/// Makes and keeps the tables, by (shape, dtype). Thread-safe.
class Redistributor {
 public:
  Redistributor(const Cluster& cluster, const Mesh& mesh);
  ~Redistributor();
  const RedistributeTable& table(const TensorMeta& tensor) const;
  const Mesh& mesh() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace autopar::costs
