#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/written_plan.h"

/// What one device does when, by a plan.
///
/// A device has one stream for compute, and one for the collectives that the plan starts and finishes elsewhere
/// (docs/plan-json.md), which run in the order of issue, in process groups of their own (io/pytorch/autopar/groups.py).
/// For all other collectives the compute stream waits. Devices are alike and in step, so one stands for all.
///
/// The search's own time model (partition/overlap.h) sums windows; this one runs the plan's text, node by node. It
/// knows nothing of windows, so each checks the other.
namespace autopar::partition {

/// Something that runs on streams from `begin_ps` to `end_ps`.
struct SimulatedEvent {
  std::int64_t begin_ps = 0;
  std::int64_t end_ps = 0;
  std::uint32_t mesh_dims = 0;                ///< of a collective, bit i: mesh dim i; 0: it runs on the compute stream
  bool is_ahead = false;                      ///< compute does not wait for it at once
  std::string label;                          ///< the op, the step, or "optimizer"
  std::int32_t node = -1;                     ///< that runs, or whose value is redistributed; -1: the optimizer
  std::vector<std::int32_t> redistributions;  ///< entries of the plan that it is a step of; several: a bucket
};

/// What the device holds from `time_ps` on.
struct MemoryPoint {
  std::int64_t time_ps = 0;
  std::int32_t node = -1;  ///< that has its turn; -1: all have run
  std::int64_t bytes = 0;
};

struct Simulation {
  std::int64_t step_ps = 0;
  std::int64_t compute_ps = 0;         ///< of the nodes and the optimizer
  std::int64_t communication_ps = 0;   ///< of collectives
  std::int64_t compute_busy_ps = 0;    ///< of the compute stream: with the local steps of redistributions
  std::vector<std::int64_t> busy_ps;   ///< with collectives over each mesh dim
  std::vector<SimulatedEvent> events;  ///< in the order of issue; what takes no time is left out
  std::vector<MemoryPoint> memory;     ///< times ascend
  std::int64_t exposed_ps() const { return step_ps - compute_ps; }
  /// The first of the highest. Requires: there is one.
  const MemoryPoint& peak() const;
};

/// Runs `plan`, which must be as io::read_plan gives it.
Simulation simulate(const WrittenPlan& plan);

}  // namespace autopar::partition
