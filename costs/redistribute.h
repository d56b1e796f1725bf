#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
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
  std::int64_t startup_ps = 0;  ///< of time_ps, what does not grow with more bytes where there are many
};

/// The collective that a step of this kind is; nothing: it is local.
std::optional<Collective> collective_of(RedistributeStep::Kind kind);

/// The last of some steps (anything with a `kind`) that communicates; -1: none does.
template <typename Steps>
std::ptrdiff_t last_collective(const Steps& steps) {
  auto i = static_cast<std::ptrdiff_t>(steps.size()) - 1;
  while (i >= 0 && !collective_of(steps[static_cast<std::size_t>(i)].kind)) --i;
  return i;
}

/// "all_gather", ..., "slice", "zero".
std::string_view step_name(RedistributeStep::Kind kind);

/// A step, among the placements of one tensor. costs/redistribute_hops.h says which there are.
struct RedistributeHop {
  std::int32_t to = -1;  ///< index of the placements after it
  RedistributeStep::Kind kind = RedistributeStep::Kind::kSlice;
  std::uint8_t mesh_dims = 0;
  std::int64_t bytes = 0;
  std::int64_t time_ps = 0;
  std::int64_t startup_ps = 0;
};

/// Cheapest paths between all placements of tensors of one shape and dtype. Thread-safe.
class RedistributeTable {
 public:
  static constexpr std::int64_t kUnreachable = INT64_MAX / 4;

  /// `hops[i]` are the steps from `states[i]`; `states` ascend.
  RedistributeTable(std::vector<Placements> states, const std::vector<std::vector<RedistributeHop>>& hops);
  ~RedistributeTable();
  RedistributeTable(const RedistributeTable&) = delete;
  RedistributeTable& operator=(const RedistributeTable&) = delete;

  /// All legal placements of the tensor, ascending, without shards or sums on mesh dims of one device. Bools and 8-bit
  /// floats have no Partial. Partial avg, max and min are there on meshes of up to kMaxMeshDimsOfRareSums dims, never
  /// beside each other or a sum: they can be left but not entered.
  const std::vector<Placements>& states() const { return states_; }
  /// Index in states(); -1 if not there.
  int index_of(const Placements& placements) const;
  /// Time in ps of the cheapest path; kUnreachable if there is none (towards a Partial of another op than sum, say).
  /// time_ps(i, i) = 0, and the triangle inequality holds.
  std::int64_t time_ps(int from, int to) const { return row(from).times_ps[static_cast<std::size_t>(to)]; }
  /// Whether there is a path; none for placements that are not there (-1).
  bool reaches(int from, int to) const { return from >= 0 && to >= 0 && time_ps(from, to) < kUnreachable; }
  /// The steps of that path, in order; ties go to fewer collectives, then to fewer steps, then to the first in a fixed
  /// order. Empty if there is no path.
  std::vector<RedistributeStep> path(int from, int to) const;

 private:
  /// Cheapest paths from one state.
  struct Row {
    std::vector<std::int64_t> times_ps;
    std::vector<std::int32_t> last_hop;  ///< into hops_; -1 where no path ends
  };
  const Row& row(int from) const {
    const Row* known = rows_[static_cast<std::size_t>(from)].load(std::memory_order_acquire);
    return known != nullptr ? *known : make_row(from);
  }
  const Row& make_row(int from) const;

  std::vector<Placements> states_;
  std::vector<RedistributeHop> hops_;   // by state
  std::vector<std::size_t> first_hop_;  // |states| + 1
  // Of each state, made when first asked for: a mesh of four dims has thousands of states, few of them used.
  std::unique_ptr<std::atomic<const Row*>[]> rows_;
};

/// Mesh dims (of more than one device) up to which tables know Partial avg, max and min; more would make them too
/// large.
inline constexpr int kMaxMeshDimsOfRareSums = 3;

/// Makes and keeps the tables, by (shape, dtype). Thread-safe.
class Redistributor {
 public:
  Redistributor(const Cluster& cluster, const Mesh& mesh);
  ~Redistributor();
  const RedistributeTable& table(const TensorMeta& tensor) const;
  const Mesh& mesh() const;
  /// The prices behind the tables.
  const CollectiveModel& collectives() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace autopar::costs
