#include "costs/redistribute_hops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "costs/rules/helpers.h"

namespace autopar::costs {
namespace {

using Kind = RedistributeStep::Kind;

std::size_t ix(std::int64_t i) { return static_cast<std::size_t>(i); }

bool has(std::uint32_t mesh_dims, int mesh_dim) { return (mesh_dims >> mesh_dim & 1U) != 0; }

/// Picks a placement per mesh dim, mesh dim 0 first, and keeps the legal picks.
class StateLister {
 public:
  StateLister(const TensorMeta& tensor, const Mesh& mesh) : tensor_(tensor), mesh_(mesh) {
    choices_.push_back(Placement::replicate());
    for (std::int64_t d = 0; d < tensor.rank(); ++d) choices_.push_back(Placement::shard(d));
    if (!can_be_partial(tensor.dtype)) return;
    choices_.push_back(Placement::partial());
    const auto cut = std::count_if(mesh.shape.begin(), mesh.shape.end(), [](std::int64_t n) { return n > 1; });
    if (cut > kMaxMeshDimsOfRareSums) return;
    for (ReduceOp op : {ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin}) choices_.push_back(Placement::partial(op));
  }

  std::vector<Placements> run() {
    pick(0, std::nullopt);
    std::sort(found_.begin(), found_.end());
    return std::move(found_);
  }

 private:
  // One kind of sum per state: sums and maxima over different mesh dims cannot be finished in any order.
  void pick(int mesh_dim, std::optional<Placement> sum) {
    if (!is_legal(tensor_, picked_, mesh_)) return;
    if (mesh_dim == mesh_.rank()) {
      found_.push_back(picked_);
      return;
    }
    for (Placement choice : choices_) {
      if (mesh_.shape[ix(mesh_dim)] == 1 && !choice.is_replicate()) break;
      if (choice.is_partial() && sum && *sum != choice) continue;
      picked_[mesh_dim] = choice;
      pick(mesh_dim + 1, choice.is_partial() ? choice : sum);
    }
    picked_[mesh_dim] = Placement::replicate();
  }

  const TensorMeta& tensor_;
  const Mesh& mesh_;
  std::vector<Placement> choices_;
  Placements picked_;
  std::vector<Placements> found_;
};

class HopLister {
 public:
  HopLister(const TensorMeta& tensor, const Mesh& mesh, const Device& device, const CollectiveModel& collectives,
            const std::vector<Placements>& states)
      : tensor_(tensor), mesh_(mesh), device_(device), collectives_(collectives), states_(states) {}

  std::vector<std::vector<RedistributeHop>> run() {
    std::vector<std::vector<RedistributeHop>> hops;
    hops.reserve(states_.size());
    for (const Placements& from : states_) {
      hops_.clear();
      for (std::uint32_t group = 1; group < 1U << mesh_.rank(); ++group) add_hops(from, group);
      hops.push_back(hops_);
    }
    return hops;
  }

 private:
  void add_hops(const Placements& from, std::uint32_t group) {
    const Placement first = from[std::countr_zero(group)];
    bool all_shards = true;
    bool all_equal = true;
    for (int i = 0; i < mesh_.rank(); ++i) {
      if (!has(group, i)) continue;
      if (mesh_.shape[ix(i)] == 1) return;
      all_shards = all_shards && from[i].is_shard();
      all_equal = all_equal && from[i] == first;
    }
    if (all_shards && can_cut(from, group)) {
      add(Kind::kAllGather, from, group, changed(from, group, Placement::replicate()));
      if (all_equal) add_to_shards(Kind::kAllToAll, from, group);
    } else if (all_equal && first.is_partial()) {
      add(Kind::kAllReduce, from, group, changed(from, group, Placement::replicate()));
      add_reduce_scatters(from, group, from, 0);
    } else if (first.is_replicate() && std::has_single_bit(group)) {
      add_to_shards(Kind::kSlice, from, group);
      if (can_be_partial(tensor_.dtype)) add(Kind::kZero, from, group, changed(from, group, Placement::partial()));
    }
  }

  /// Steps that cut one tensor dim on all of `group`.
  void add_to_shards(Kind kind, const Placements& from, std::uint32_t group) {
    for (std::int64_t d = 0; d < tensor_.rank(); ++d) {
      const Placements to = changed(from, group, Placement::shard(d));
      if (to != from && can_cut(to, group)) add(kind, from, group, to);
    }
  }

  /// Every choice of tensor dims for the mesh dims of `group` from `mesh_dim` on.
  void add_reduce_scatters(const Placements& from, std::uint32_t group, Placements to, int mesh_dim) {
    while (mesh_dim < mesh_.rank() && !has(group, mesh_dim)) ++mesh_dim;
    if (mesh_dim == mesh_.rank()) {
      if (can_cut(to, group)) add(Kind::kReduceScatter, from, group, to);
      return;
    }
    for (std::int64_t d = 0; d < tensor_.rank(); ++d) {
      to[mesh_dim] = Placement::shard(d);
      add_reduce_scatters(from, group, to, mesh_dim + 1);
    }
  }

  static Placements changed(Placements placements, std::uint32_t group, Placement placement) {
    for (int i = 0; i < kMaxMeshDims; ++i) {
      if (has(group, i)) placements[i] = placement;
    }
    return placements;
  }

  /// True if the cuts that `placements` makes on `group` are the innermost of their tensor dims, and equal where they
  /// are several.
  bool can_cut(const Placements& placements, std::uint32_t group) const {
    for (int i = 0; i < mesh_.rank(); ++i) {
      if (!has(group, i)) continue;
      for (int j = i + 1; j < mesh_.rank(); ++j) {
        if (!has(group, j) && placements[j] == placements[i]) return false;
      }
      const int d = placements[i].dim();
      if (!std::has_single_bit(group) && tensor_.shape[ix(d)] % num_shards(placements, mesh_, d) != 0) return false;
    }
    return true;
  }

  void add(Kind kind, const Placements& from, std::uint32_t group, const Placements& to) {
    const auto found = std::lower_bound(states_.begin(), states_.end(), to);
    if (found == states_.end() || *found != to) return;
    RedistributeHop hop;
    hop.to = static_cast<std::int32_t>(found - states_.begin());
    hop.kind = kind;
    hop.mesh_dims = static_cast<std::uint8_t>(group);
    price(hop, from, group, to);
    hops_.push_back(hop);
  }

  void price(RedistributeHop& hop, const Placements& from, std::uint32_t group, const Placements& to) {
    std::int64_t n = 1;
    for (int i = 0; i < mesh_.rank(); ++i) {
      if (has(group, i)) n *= mesh_.shape[ix(i)];
    }
    int copies = 0;
    switch (hop.kind) {
      case Kind::kSlice:
        return;
      case Kind::kZero:
        hop.time_ps = memory_ps(local_bytes(tensor_, to, mesh_));
        return;
      case Kind::kAllReduce:
        hop.bytes = local_bytes(tensor_, from, mesh_);
        break;
      case Kind::kAllGather:
        hop.bytes = local_bytes(tensor_, from, mesh_) * n;
        copies = needs_copy(from, group) ? 1 : 0;
        break;
      case Kind::kReduceScatter:
        hop.bytes = local_bytes(tensor_, to, mesh_) * n;
        copies = needs_copy(to, group) ? 1 : 0;
        break;
      case Kind::kAllToAll:
        hop.bytes = all_to_all_bytes(from, group, to, n);
        copies = (needs_copy(from, group) ? 1 : 0) + (needs_copy(to, group) ? 1 : 0);
        break;
    }
    const Collective collective = *collective_of(hop.kind);
    const std::int64_t collective_ps = collectives_.time_ps(collective, group, hop.bytes);
    const std::int64_t bytes_ps = std::llround(ps_per_byte(collective, group) * static_cast<double>(hop.bytes));
    hop.time_ps = collective_ps + copies * memory_ps(2 * hop.bytes) + memory_ps(0);
    hop.startup_ps = std::max<std::int64_t>(collective_ps - bytes_ps + memory_ps(0), 0);
  }

  /// What each further byte takes where there are many.
  double ps_per_byte(Collective collective, std::uint32_t group) {
    const auto [known, is_new] = ps_per_byte_.try_emplace({collective, group}, 0);
    if (is_new) {
      constexpr std::int64_t kMany = std::int64_t{1} << 40;
      const std::int64_t many_ps =
          collectives_.time_ps(collective, group, 2 * kMany) - collectives_.time_ps(collective, group, kMany);
      known->second = static_cast<double>(many_ps) / static_cast<double>(kMany);
    }
    return known->second;
  }

  // A piece of the piece, padded on both tensor dims, goes to each device.
  std::int64_t all_to_all_bytes(const Placements& from, std::uint32_t group, const Placements& to,
                                std::int64_t n) const {
    const std::int64_t b = to[std::countr_zero(group)].dim();
    std::int64_t bytes = n * dtype_bytes(tensor_.dtype);
    const std::vector<std::int64_t> before = local_shape(tensor_, from, mesh_);
    const std::vector<std::int64_t> after = local_shape(tensor_, to, mesh_);
    for (std::int64_t d = 0; d < tensor_.rank(); ++d) bytes *= d == b ? after[ix(d)] : before[ix(d)];
    return bytes;
  }

  /// False if the blocks that `placements` makes on `group` lie one after another in memory: the cut tensor dim is the
  /// same everywhere, and the dims before it have one element.
  bool needs_copy(const Placements& placements, std::uint32_t group) const {
    const Placement cut = placements[std::countr_zero(group)];
    for (int i = 0; i < mesh_.rank(); ++i) {
      if (has(group, i) && placements[i] != cut) return true;
    }
    const std::vector<std::int64_t> shape = local_shape(tensor_, placements, mesh_);
    return std::any_of(shape.begin(), shape.begin() + cut.dim(), [](std::int64_t size) { return size > 1; });
  }

  std::int64_t memory_ps(std::int64_t bytes) const {
    return std::llround((static_cast<double>(bytes) / device_.memory_bandwidth + device_.launch_s) * 1e12);
  }

  const TensorMeta& tensor_;
  const Mesh& mesh_;
  const Device& device_;
  const CollectiveModel& collectives_;
  const std::vector<Placements>& states_;
  std::vector<RedistributeHop> hops_;  // from the state at work
  std::map<std::pair<Collective, std::uint32_t>, double> ps_per_byte_;
};

}  // namespace

std::vector<Placements> redistribute_states(const TensorMeta& tensor, const Mesh& mesh) {
  return StateLister(tensor, mesh).run();
}

std::vector<std::vector<RedistributeHop>> redistribute_hops(const TensorMeta& tensor, const Mesh& mesh,
                                                            const Device& device, const CollectiveModel& collectives,
                                                            const std::vector<Placements>& states) {
  return HopLister(tensor, mesh, device, collectives, states).run();
}

}  // namespace autopar::costs
