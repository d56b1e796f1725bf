#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "costs/graph.h"
#include "costs/redistribute.h"
#include "engine/cost_network.h"
#include "partition/model_network.h"
#include "partition/plan.h"
#include "partition/problem.h"
#include "partition/uses.h"
#include "partition/windows.h"

/// The time of a step in which communication hides behind compute.
///
/// A device has two streams: ops run in one, collectives in the other. The last collective of a redistribution with a
/// flight (windows.h) hides in the window in which it starts. All other collectives are exposed: the ops behind them
/// wait. A window takes max(compute, hideable communication) and what is exposed in it. Collectives of one kind over
/// the same mesh dims that start together run as one bucket: their start-up latency counts once.
///
/// Where a cluster can pipeline a collective with the matmul beside it (async tensor parallelism: Wang et al. 2023), an
/// all-gather right before a matmul and a reduce-scatter right behind one hide in part (Device::matmul_overlap).
namespace autopar::partition {

/// Which entries of collect_uses(graph) stand beside a matmul; views between do not count.
class MatmulNeighbours {
 public:
  MatmulNeighbours(const costs::Graph& graph, const std::vector<PhaseUses>& uses);
  /// Whether an entry's value is given by a matmul, or one of its readers is one.
  bool is_behind(std::int32_t uses) const { return is_behind_[static_cast<std::size_t>(uses)] != 0; }
  bool is_before(std::int32_t uses) const { return is_before_[static_cast<std::size_t>(uses)] != 0; }

 private:
  std::vector<char> is_behind_;
  std::vector<char> is_before_;
};

/// Times in ps of one redistribution.
struct CommunicationTime {
  std::int64_t exposed_ps = 0;
  /// Of the last collective of a flight, without its start-up if it can share that.
  std::int64_t hideable_ps = 0;
  std::int64_t startup_ps = 0;  ///< of that collective, if it can share it
  /// The bucket that it can be in, beside others with the same; nothing: it is in none. A bucket has the longest of the
  /// start-ups.
  struct Bucket {
    costs::RedistributeStep::Kind kind = costs::RedistributeStep::Kind::kAllGather;
    std::uint32_t mesh_dims = 0;
    auto operator<=>(const Bucket&) const = default;
  };
  std::optional<Bucket> bucket = {};
};
CommunicationTime communication_time(const std::vector<costs::RedistributeStep>& steps, bool has_flight,
                                     bool is_behind_matmul, bool is_before_matmul, const costs::Device& device);

struct WindowTime {
  std::int64_t compute_ps = 0;
  std::int64_t hideable_ps = 0;
  std::int64_t uncovered_ps() const { return hideable_ps > compute_ps ? hideable_ps - compute_ps : 0; }
};

struct StepTime {
  std::vector<WindowTime> windows;
  std::int64_t exposed_ps = 0;    ///< of collectives that are not hideable
  std::int64_t optimizer_ps = 0;  ///< of graph inputs; it runs behind all windows
  std::int64_t total_ps() const;
};

/// The time of a plan's step with overlap.
StepTime step_time(const Problem& problem, const Plan& plan);

/// The networks that bound the overlapped time (Lagrangian relaxation).
///
/// For any shares 0 <= s_w <= 1, max(compute, hideable) of a window is at least (1 - s_w) · compute + s_w · hideable. A
/// bucket's start-up is at least the sum over its members of what each takes over of it, if these parts add up to no
/// more than all of it. Both are sums over single choices: so the optimum of each such network bounds the time of every
/// plan.
class OverlapNetworks {
 public:
  OverlapNetworks(const Problem& problem, const costs::Redistributor& redistributor, const ModelNetwork& model);

  /// A share, or a part of a start-up, is a number of these parts.
  static constexpr std::int64_t kWhole = 1024;

  /// What the sums are made with. Windows of one class have the same.
  struct Multipliers {
    std::vector<std::int64_t> shares;                ///< per class of windows
    std::vector<std::vector<std::int64_t>> startup;  ///< per group of links, by bucket: the part that each takes over
  };
  /// All windows with one share, start-ups in equal parts.
  Multipliers even(std::int64_t share) const;
  /// Moves `multipliers` by about `step` parts to where the bound is higher, if `assignment` is the optimum of their
  /// network (subgradients): to the longer side of each window, and to those members that are in their buckets.
  void ascend(const engine::Assignment& assignment, std::int64_t step, Multipliers& multipliers) const;
  /// Those that give the time of `assignment`, and that of others beside it (slope scaling: Kim and Pardalos 1999). No
  /// bound.
  Multipliers fitted(const engine::Assignment& assignment) const;

  /// The model's network with such sums as costs, rounded down.
  engine::CostNetwork priced(const Multipliers& multipliers) const;
  /// The time of an assignment: that of its plan.
  StepTime time(const engine::Assignment& assignment) const;

 private:
  using Bucket = CommunicationTime::Bucket;
  /// Of each combination of a link's ends what is exposed, what hides, without a start-up that is shared, and the
  /// bucket (index into buckets_; -1: none).
  struct Prices {
    engine::Table exposed;
    engine::Table hideable;
    std::vector<std::int64_t> startups_ps;
    std::vector<std::int32_t> buckets;
  };
  struct PricedLink {
    std::int32_t edge = -1;      ///< of the network; -1: a pair variable has the cost
    std::int32_t variable = -1;  ///< of pairs
    std::int32_t prices = -1;    ///< index into prices_, of one column for a pair variable; -1: the edge's own table
    std::int32_t window = -1;    ///< in which it hides; -1: none
    bool is_prefetch = false;
    std::int32_t group = -1;  ///< of the links in the same place of windows of one class; -1: it hides in none
  };
  struct Cost {
    engine::Cost exposed = 0;
    engine::Cost hideable = 0;
    engine::Cost startup = 0;
    std::int32_t bucket = -1;
  };
  /// Members of a group that are in a bucket in some assignment.
  using Members = std::vector<std::vector<std::int64_t>>;  // [group][bucket]

  void price_links(const costs::Redistributor& redistributor);
  Prices make_prices(const costs::Redistributor& redistributor, const ModelNetwork::Impl::Link& link,
                     const MatmulNeighbours& matmuls, bool hides);
  void classify_windows();
  Cost link_cost(const PricedLink& link, const engine::Assignment& assignment) const;
  Members members(const engine::Assignment& assignment) const;
  engine::Table priced(const Prices& prices, std::int64_t share, const std::vector<std::int64_t>& startup) const;
  void price_links(const Multipliers& multipliers, engine::CostNetwork& network) const;

  const Problem& problem_;
  const ModelNetwork& model_;
  Windows windows_;
  std::vector<PricedLink> links_;
  std::vector<Prices> prices_;
  std::vector<Bucket> buckets_;
  std::vector<std::int32_t> classes_;  ///< per window; equal ones have equal nodes and flights
  std::int32_t num_classes_ = 0;
  /// Groups whose members can share start-ups: of one class of windows, and prefetches or not.
  std::vector<std::vector<std::int32_t>> sharing_;
  std::vector<std::int64_t> group_sizes_;  ///< how many links each group has
};

}  // namespace autopar::partition
