#include "costs/collective.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <unordered_map>

namespace autopar::costs {
namespace {

// NCCL's own correction of its trees' bandwidth at tens of MiB, where trees and rings compete (treeCorrectionFactor,
// Simple protocol, src/graph/tuning.cc).
constexpr double kTreeShare = 0.8;

constexpr double kPicosecondsPerSecond = 1e12;

std::int64_t ceil_log2(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(n - 1)));
}

}  // namespace

std::string_view collective_name(Collective collective) {
  constexpr std::array<std::string_view, 4> kNames = {"all_gather", "reduce_scatter", "all_reduce", "all_to_all"};
  return kNames[static_cast<std::size_t>(collective)];
}

struct CollectiveModel::Layout {
  struct Level {
    std::int64_t units = 1;   ///< units of this level that the group touches, at most
    std::int64_t fewest = 1;  ///< members in one unit, at least
    std::int64_t most = 1;    ///< and at most
  };
  std::int64_t size = 1;
  std::vector<Level> levels;  // by link

  std::int64_t units_below(std::size_t level) const { return level == 0 ? size : levels[level - 1].units; }
  std::int64_t fewest_below(std::size_t level) const { return level == 0 ? 1 : levels[level - 1].fewest; }
  bool crosses(std::size_t level) const { return units_below(level) > levels[level].units; }
};

CollectiveModel::CollectiveModel(const Cluster& cluster, const Mesh& mesh) {
  const std::uint32_t count = 1U << mesh.rank();
  groups_.reserve(count);
  for (std::uint32_t mesh_dims = 0; mesh_dims < count; ++mesh_dims) {
    groups_.push_back(make_group(cluster, lay_out(cluster, mesh, mesh_dims)));
  }
}

CollectiveModel::Layout CollectiveModel::lay_out(const Cluster& cluster, const Mesh& mesh, std::uint32_t mesh_dims) {
  Layout layout;
  std::vector<std::int64_t> members = {0};  // ranks of the group that rank 0 is in
  std::vector<std::int64_t> offsets = {0};  // first ranks of all groups
  std::int64_t stride = 1;
  for (int i = mesh.rank() - 1; i >= 0; --i) {
    const std::int64_t n = mesh.shape[static_cast<std::size_t>(i)];
    std::vector<std::int64_t>& ranks = (mesh_dims >> i & 1U) != 0 ? members : offsets;
    const std::size_t old = ranks.size();
    for (std::int64_t k = 1; k < n; ++k) {
      for (std::size_t j = 0; j < old; ++j) ranks.push_back(ranks[j] + k * stride);
    }
    stride *= n;
  }
  layout.size = static_cast<std::int64_t>(members.size());

  for (const Link& link : cluster.links) {
    if (link.group == 0) {
      layout.levels.push_back({1, layout.size, layout.size});
      continue;
    }
    Layout::Level level{0, layout.size, 1};
    std::unordered_map<std::int64_t, std::int64_t> members_of;
    for (std::int64_t offset : offsets) {
      members_of.clear();
      for (std::int64_t member : members) ++members_of[(offset + member) / link.group];
      level.units = std::max(level.units, static_cast<std::int64_t>(members_of.size()));
      for (const auto& [unit, number] : members_of) {
        level.fewest = std::min(level.fewest, number);
        level.most = std::max(level.most, number);
      }
    }
    layout.levels.push_back(level);
  }
  return layout;
}

CollectiveModel::Group CollectiveModel::make_group(const Cluster& cluster, const Layout& layout) {
  Group group;
  if (layout.size == 1) return group;
  const double n = static_cast<double>(layout.size);
  double base = 0;
  double ring_steps = 0;
  double tree_steps = 0;
  double pair_steps = 0;
  double bandwidth = std::numeric_limits<double>::infinity();
  double pair_s_per_byte = 0;
  for (std::size_t l = 0; l < cluster.links.size(); ++l) {
    if (!layout.crosses(l)) continue;
    const Link& link = cluster.links[l];
    const std::int64_t steps = layout.units_below(l) - layout.levels[l].units;
    base = link.base_latency_s;
    ring_steps += static_cast<double>(steps) * link.hop_latency_s;
    const std::int64_t fan = (layout.units_below(l) + layout.levels[l].units - 1) / layout.levels[l].units;
    const auto depth = static_cast<double>(l == 0 ? fan - 1 : ceil_log2(fan));
    tree_steps += depth * link.hop_latency_s;
    bandwidth = std::min(bandwidth, link.bandwidth * static_cast<double>(layout.fewest_below(l)));
    // Peers inside the innermost level are served one after another; farther ones at the same time as those.
    pair_steps += (l == 0 ? 2.0 * static_cast<double>(layout.levels[0].most - 1) : 2.0) * link.hop_latency_s;
    const std::int64_t peers = layout.levels[l].most - layout.fewest_below(l);
    pair_s_per_byte = std::max(pair_s_per_byte, static_cast<double>(peers) / n / link.bandwidth);
  }
  group.gather.push_back({base + ring_steps, (n - 1) / n / bandwidth});
  group.all_reduce.push_back({base + 2 * ring_steps, 2 * (n - 1) / n / bandwidth});
  group.all_reduce.push_back({base + 2 * tree_steps, 2 / (kTreeShare * bandwidth)});
  const Link& inner = cluster.links.front();
  if (inner.multicast_bandwidth > 0 && layout.levels.front().units == 1) {
    group.all_reduce.push_back(
        {inner.base_latency_s + inner.multicast_latency_s, (n + 1) / n / inner.multicast_bandwidth});
  }
  group.all_to_all.push_back({base + pair_steps, pair_s_per_byte});
  return group;
}

std::int64_t CollectiveModel::time_ps(Collective collective, std::uint32_t mesh_dims, std::int64_t bytes) const {
  const Group& group = groups_[mesh_dims];
  const std::vector<Algorithm>& algorithms = collective == Collective::kAllReduce  ? group.all_reduce
                                             : collective == Collective::kAllToAll ? group.all_to_all
                                                                                   : group.gather;
  if (algorithms.empty()) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (const Algorithm& algorithm : algorithms) {
    best = std::min(best, algorithm.latency_s + algorithm.s_per_byte * static_cast<double>(bytes));
  }
  return std::llround(best * kPicosecondsPerSecond);
}

}  // namespace autopar::costs
