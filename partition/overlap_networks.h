#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "costs/redistribute.h"
#include "engine/cost_network.h"
#include "partition/model_network.h"
#include "partition/overlap.h"
#include "partition/pipelines.h"
#include "partition/problem.h"
#include "partition/windows.h"

namespace autopar::partition {

/// The networks that bound the overlapped time (Lagrangian relaxation).
///
/// For any shares 0 <= s_w <= 1, max(compute, hideable) of a window is at least (1 - s_w) · compute + s_w · hideable. A
/// bucket's start-up is at least the sum over its members of what each takes over of it, if these parts add up to no
/// more than all of it. Both are sums over single choices: so the optimum of each such network bounds the time of every
/// plan.
class OverlapNetworks {
 public:
  /// `model` is build_network(problem, redistributor, ...), and stays alive.
  OverlapNetworks(const Problem& problem, const costs::Redistributor& redistributor, const ModelNetwork& model);

  /// A share, or a part of a start-up, is a number of these parts.
  static constexpr std::int64_t kWhole = 1024;

  /// What the sums are made with. Windows of one class have the same.
  struct Multipliers {
    std::vector<std::int64_t> shares;  ///< per class of windows
    std::int64_t pipelined = kWhole;   ///< of the most that pipelines can hide, what counts; all for a bound
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

  /// Whether any redistribution can run in pieces beside matmuls.
  bool can_pipeline() const;

  /// The model's network with such sums as costs, rounded down.
  engine::CostNetwork priced(const Multipliers& multipliers) const;
  /// The time of an assignment: that of its plan.
  StepTime time(const engine::Assignment& assignment) const;

 private:
  using Bucket = CommunicationTime::Bucket;
  /// Of each combination of a link's ends; kForbidden is exposed where there is no way.
  struct Prices {
    std::vector<CommunicationTime> times;
    /// What can run beside matmuls, and the most that hides of it.
    struct InPieces {
      std::optional<costs::RedistributeStep> step = {};
      std::int64_t most_hidden_ps = 0;
    };
    std::vector<InPieces> in_pieces = {};  ///< empty: nothing can
    std::int32_t cols = 1;
  };
  struct PricedLink {
    std::int32_t edge = -1;      ///< of the network; -1: a pair variable has the cost
    std::int32_t variable = -1;  ///< of pairs
    std::int32_t prices = -1;    ///< index into prices_, of one column for a pair variable; -1: the edge's own table
    std::int32_t window = -1;    ///< in which it hides; -1: none
    bool is_prefetch = false;
    std::int32_t group = -1;  ///< of the links in the same place of windows of one class; -1: it hides in none
  };
  /// Members of a group that are in a bucket in some assignment.
  using Members = std::vector<std::vector<std::int64_t>>;  // [group][bucket]

  void price_links(const costs::Redistributor& redistributor);
  Prices make_prices(const costs::Redistributor& redistributor, const ModelNetwork::Impl::Link& link, bool hides,
                     bool can_pipeline);
  Prices::InPieces find_pieces(const ModelNetwork::Impl::Link& link,
                               const std::vector<costs::RedistributeStep>& steps) const;
  void classify_windows();
  bool is_behind_kept(std::size_t link) const;
  std::size_t index_of(const PricedLink& link, const engine::Assignment& assignment) const;  ///< in Prices
  CommunicationTime link_time(const PricedLink& link, const engine::Assignment& assignment) const;
  std::vector<Redistribution::Use> readers(std::size_t link, const engine::Assignment& assignment) const;
  std::int64_t pipelined_ps(std::size_t link, const engine::Assignment& assignment, PipelineTimer& timer) const;
  std::int32_t index_of(const std::optional<Bucket>& bucket) const;  ///< in buckets_; -1: nothing
  PipelineTimer pipeline_timer(const engine::Assignment& assignment) const;
  /// Of the most that an assignment's pipelines can hide, what they do.
  std::int64_t pipelined_share(const engine::Assignment& assignment) const;
  /// Of all windows of each class together.
  std::vector<WindowTime> class_times(const engine::Assignment& assignment) const;
  Members members(const engine::Assignment& assignment) const;
  engine::Table priced(const Prices& prices, std::int64_t share, const std::vector<std::int64_t>& startup,
                       std::int64_t pipelined) const;
  void price_links(const Multipliers& multipliers, engine::CostNetwork& network) const;

  const Problem& problem_;
  const ModelNetwork& model_;
  const Windows& windows_;
  Pipelines pipelines_;
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
