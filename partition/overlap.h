#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "costs/graph.h"
#include "costs/redistribute.h"
#include "partition/plan.h"
#include "partition/uses.h"
#include "partition/windows.h"

/// The time of a step in which communication hides behind compute.
///
/// A device has two streams: ops run in one, collectives in the other. The last collective of a redistribution with a
/// flight (windows.h) hides in the window in which it starts. All other collectives are exposed: the ops behind them
/// wait. A window takes max(compute, hideable communication) and what is exposed in it. Collectives of one kind over
/// the same mesh dims that start together run as one bucket: their start-up latency counts once.
/// Of collectives that run in pieces beside matmuls (pipelines.h), what hides is not exposed.
namespace autopar::partition {

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
CommunicationTime communication_time(const std::vector<costs::RedistributeStep>& steps, bool has_flight);

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

/// Sums up a step.
class StepTimer {
 public:
  explicit StepTimer(std::int32_t num_windows) { time_.windows.resize(static_cast<std::size_t>(num_windows)); }

  /// Of a node in a window; -1: of a graph input.
  void compute(std::int32_t window, std::int64_t ps);
  /// Of a redistribution that hides in a window; -1: in none.
  void communicate(std::int32_t window, bool is_prefetch, const CommunicationTime& time);
  StepTime take();

 private:
  StepTime time_;
  /// By window, and whether of prefetches: the start-up.
  std::map<std::tuple<std::int32_t, bool, CommunicationTime::Bucket>, std::int64_t> startups_ps_;
};

/// The time of a plan's step. `uses` is collect_uses() of its graph.
StepTime step_time(const Plan& plan, const std::vector<PhaseUses>& uses, const Windows& windows);

}  // namespace autopar::partition
