#pragma once

#include <cstdint>
#include <vector>

#include "costs/graph.h"
#include "costs/redistribute.h"
#include "engine/cost_network.h"
#include "partition/model_network.h"
#include "partition/plan.h"
#include "partition/problem.h"
#include "partition/uses.h"

/// Communication that hides behind compute.
///
/// A device has two streams: ops run in one, collectives in the other. A *window* is one segment's forward or backward.
/// What is gathered of parameters needs nothing but these, so it is prefetched: it runs in the window before the one
/// that reads it. What gradients are reduced to is read by nobody but the optimizer, so their collectives are deferred:
/// they run in the window behind the one that makes them. (FSDP: Zhao et al. 2023.) All other collectives are exposed:
/// the ops behind them wait. So are those of the first window, before which nothing runs, and of the last.
///
/// A window takes max(compute, hideable communication) and what is exposed in it. Hideable collectives of one kind over
/// the same mesh dims run as one bucket in a window: their start-up latency counts once.
///
/// Where a cluster can pipeline a collective with the matmul beside it (async tensor parallelism: Wang et al. 2023), an
/// all-gather right before a matmul and a reduce-scatter right behind one hide in part (Device::matmul_overlap).
namespace autopar::partition {

/// What the graph alone says about overlap.
class Overlap {
 public:
  Overlap(const costs::Graph& graph, const std::vector<PhaseUses>& uses);

  std::int32_t num_windows() const { return num_windows_; }
  /// In which a node runs; -1 for graph inputs.
  std::int32_t window_of(std::int32_t node) const { return window_of_[static_cast<std::size_t>(node)]; }
  /// In which the redistributions of an entry of `uses` hide; -1: they are exposed.
  std::int32_t hides_in(std::int32_t uses) const { return hides_in_[static_cast<std::size_t>(uses)]; }
  /// How many redistributions can be in a bucket with those of an entry, at most.
  std::int64_t most_in_bucket(std::int32_t uses) const { return most_in_bucket_[static_cast<std::size_t>(uses)]; }
  /// Whether an entry's value is given by a matmul, or one of its readers is one; views between do not count.
  bool is_behind_matmul(std::int32_t uses) const { return behind_matmul_[static_cast<std::size_t>(uses)] != 0; }
  bool is_before_matmul(std::int32_t uses) const { return before_matmul_[static_cast<std::size_t>(uses)] != 0; }

 private:
  std::int32_t num_windows_ = 0;
  std::vector<std::int32_t> window_of_;
  std::vector<std::int32_t> hides_in_;
  std::vector<std::int64_t> most_in_bucket_;
  std::vector<char> behind_matmul_;
  std::vector<char> before_matmul_;
};

/// Time in ps that the steps of one redistribution take the ops beside it, if it is exposed.
std::int64_t exposed_ps(const Overlap& overlap, std::int32_t uses, const std::vector<costs::RedistributeStep>& steps,
                        const costs::Device& device);
/// Time in ps of its collectives with a part of their start-up, if it is hideable: 1 / `most_in_bucket`, or none if
/// that is 0.
std::int64_t hideable_ps(const std::vector<costs::RedistributeStep>& steps, const costs::CollectiveModel& collectives,
                         std::int64_t most_in_bucket);

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
StepTime step_time(const Problem& problem, const Plan& plan, const costs::CollectiveModel& collectives);

/// The networks that bound the overlapped time. For any shares 0 <= s_w <= 1, max(compute, hideable) is at least
/// (1 - s_w) · compute + s_w · hideable, which is a sum over single choices: so the optimum of each such network bounds
/// the time of every plan (Lagrangian relaxation of the windows' maxima).
class OverlapNetworks {
 public:
  OverlapNetworks(const Problem& problem, const costs::Redistributor& redistributor, const ModelNetwork& model);

  /// A share is a number of these parts.
  static constexpr std::int64_t kWhole = 1024;

  /// The model's network with the share of each window. Costs are rounded down.
  engine::CostNetwork priced(const std::vector<std::int64_t>& shares) const;
  /// The time of an assignment, with the least that the start-up of buckets can be.
  StepTime time(const engine::Assignment& assignment) const;
  /// Per window, which class of windows with equal nodes it is of.
  const std::vector<std::int32_t>& window_classes() const { return classes_; }

 private:
  /// Where a link's cost stands, and in which window it hides (-1: none).
  struct PricedLink {
    std::int32_t edge = -1;   ///< of the network; -1: a pair variable has the cost
    std::int32_t table = -1;  ///< index into tables_; -1: the edge's own
    std::int32_t variable = -1;
    std::vector<engine::Cost> costs;  ///< of the pair variable
    std::int32_t window = -1;
  };

  void price_links(const costs::Redistributor& redistributor);
  void classify_windows();
  engine::Cost link_cost(const PricedLink& link, const engine::Assignment& assignment) const;

  const Problem& problem_;
  const ModelNetwork& model_;
  Overlap overlap_;
  std::vector<PricedLink> links_;
  std::vector<engine::Table> tables_;
  std::vector<std::int32_t> classes_;
};

}  // namespace autopar::partition
