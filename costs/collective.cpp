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

// What trees reach of a ring's bandwidth (NCCL, src/graph/tuning.cc).
constexpr double kTreeShare = 0.92;
// The same in the low-latency protocol, where half of what is sent are flags.
constexpr double kLowLatencyRingShare = 0.5;
constexpr double kLowLatencyTreeShare = 1 / 3.8;

// In a ring across nodes, the steps inside nodes wait for network operations to be posted (NCCL, src/graph/tuning.cc:
// 1 us on Intel hosts, 2 on AMD's).
constexpr double kNetworkPostSeconds = 1e-6;

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

struct CollectiveModel::Path {
  struct Level {
    const Link* link = nullptr;
    double ring_steps = 0;
    double tree_depth = 0;
  };
  double n = 1;
  double bandwidth = std::numeric_limits<double>::infinity();  ///< of the narrowest level, ports added up
  std::vector<Level> levels;                                   ///< those that the group crosses
};

void CollectiveModel::add_rings_and_trees(const Path& path, Protocol Link::*protocol, double ring_bandwidth,
                                          double tree_bandwidth, Group& group) {
  const Protocol& outer = path.levels.back().link->*protocol;
  const double post_s = path.levels.size() > 1 ? kNetworkPostSeconds : 0;
  double ring_s = 0;
  double tree_s = 0;
  for (const Path::Level& level : path.levels) {
    const Protocol& link = level.link->*protocol;
    ring_s += level.ring_steps * std::max(link.hop_latency_s, post_s);
    tree_s += level.tree_depth * link.hop_latency_s;
  }
  const double base_s = outer.base_latency_s;
  const double ring_s_per_byte = (path.n - 1) / path.n / ring_bandwidth;
  group.gather.push_back({base_s + ring_s, ring_s_per_byte});
  group.all_reduce.push_back({base_s + 2 * ring_s, 2 * ring_s_per_byte});
  group.all_reduce.push_back({base_s + 2 * tree_s, 2 / tree_bandwidth, outer.hop_latency_s});
}

CollectiveModel::Group CollectiveModel::make_group(const Cluster& cluster, const Layout& layout) {
  Group group;
  if (layout.size == 1) return group;
  Path path;
  path.n = static_cast<double>(layout.size);
  bool has_low_latency = true;
  // Peers are served one after another, in all as many as the innermost level has; those beyond at the same time.
  const Link& inner = cluster.links.front();
  const std::int64_t rounds = inner.group == 0 ? layout.size : std::min(layout.size, inner.group);
  double pair_s = 2 * static_cast<double>(rounds - 1) * inner.bulk.hop_latency_s;
  double pair_s_per_byte = 0;
  for (std::size_t l = 0; l < cluster.links.size(); ++l) {
    if (!layout.crosses(l)) continue;
    const Link& link = cluster.links[l];
    const std::int64_t units = layout.levels[l].units;
    const std::int64_t fan = (layout.units_below(l) + units - 1) / units;
    path.levels.push_back({&link, static_cast<double>(layout.units_below(l) - units),
                           static_cast<double>(l == 0 ? fan - 1 : ceil_log2(fan))});
    path.bandwidth = std::min(path.bandwidth, link.bulk.bandwidth * static_cast<double>(layout.fewest_below(l)));
    has_low_latency = has_low_latency && link.low_latency.bandwidth > 0;
    if (l > 0) pair_s += 2 * link.bulk.hop_latency_s;
    const std::int64_t peers = layout.levels[l].most - layout.fewest_below(l);
    pair_s_per_byte = std::max(pair_s_per_byte, static_cast<double>(peers) / path.n / link.bulk.bandwidth);
  }
  const Link& outer = *path.levels.back().link;
  add_rings_and_trees(path, &Link::bulk, path.bandwidth, kTreeShare * path.bandwidth, group);
  if (has_low_latency) {
    const double limit = outer.low_latency.bandwidth;
    add_rings_and_trees(path, &Link::low_latency, std::min(limit, kLowLatencyRingShare * path.bandwidth),
                        std::min(limit, kLowLatencyTreeShare * path.bandwidth), group);
  }
  if (inner.multicast_bandwidth > 0 && layout.levels.front().units == 1) {
    group.all_reduce.push_back(
        {inner.multicast_latency_s, (path.n + 1) / path.n / inner.multicast_bandwidth, inner.bulk.hop_latency_s});
  }
  group.all_to_all.push_back({outer.bulk.base_latency_s + pair_s, pair_s_per_byte});
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
    const double stream_s = algorithm.s_per_byte * static_cast<double>(bytes);
    best = std::min(best, algorithm.latency_s + stream_s + 2 * std::sqrt(algorithm.handover_s * stream_s));
  }
  return std::llround(best * kPicosecondsPerSecond);
}

}  // namespace autopar::costs
