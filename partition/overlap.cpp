#include "partition/overlap.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "engine/index.h"

namespace autopar::partition {

using costs::Phase;
using costs::RedistributeStep;

using engine::ix;

std::int64_t StepTime::total_ps() const {
  std::int64_t sum = exposed_ps + optimizer_ps;
  for (const WindowTime& window : windows) sum += window.compute_ps + window.uncovered_ps();
  return sum;
}

CommunicationTime communication_time(const std::vector<RedistributeStep>& steps, bool has_flight) {
  CommunicationTime time;
  const std::ptrdiff_t index = has_flight ? costs::last_collective(steps) : -1;
  for (const RedistributeStep& step : steps) time.exposed_ps += step.time_ps;
  if (index >= 0) {
    const RedistributeStep& last = steps[static_cast<std::size_t>(index)];
    time.exposed_ps -= last.time_ps;
    time.hideable_ps = last.time_ps;
    if (last.kind != RedistributeStep::Kind::kAllToAll) {
      time.bucket = {last.kind, last.mesh_dims};
      time.startup_ps = last.startup_ps;
      time.hideable_ps -= last.startup_ps;
    }
  }
  return time;
}

void StepTimer::compute(std::int32_t window, std::int64_t ps) {
  (window < 0 ? time_.optimizer_ps : time_.windows[ix(window)].compute_ps) += ps;
}

void StepTimer::communicate(std::int32_t window, bool is_prefetch, const CommunicationTime& time) {
  time_.exposed_ps += time.exposed_ps;
  if (window < 0) return;
  time_.windows[ix(window)].hideable_ps += time.hideable_ps;
  if (!time.bucket) return;
  std::int64_t& startup_ps = startups_ps_[{window, is_prefetch, *time.bucket}];
  startup_ps = std::max(startup_ps, time.startup_ps);
}

StepTime StepTimer::take() {
  for (const auto& [bucket, ps] : startups_ps_) time_.windows[ix(std::get<0>(bucket))].hideable_ps += ps;
  return std::move(time_);
}

StepTime step_time(const Plan& plan, const std::vector<PhaseUses>& uses, const Windows& windows) {
  StepTimer timer(windows.count());
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    timer.compute(windows.of_node(static_cast<std::int32_t>(i)), plan.nodes[i].compute_ps);
    timer.communicate(-1, false, {costs::total_ps(plan.nodes[i].all_reduces)});
  }
  const UsesOfValues of_values = uses_of_values(uses);
  for (const Redistribution& one : plan.redistributions) {
    // What is cut behind the last use in the forward is for the backward's readers.
    const UsesOfValue& of_value = of_values.at({one.value.node, one.value.output});
    const bool is_kept = of_value.forward >= 0 && plan.kept[ix(of_value.forward)] == one.to;
    const std::int32_t entry = of_value.in(one.is_saved && !is_kept ? Phase::kBackward : one.phase);
    CommunicationTime time = communication_time(one.steps, one.flight.exists());
    time.exposed_ps -= one.pipelined_ps;
    timer.communicate(windows.hides_in(one.flight), windows.is_prefetch(entry), time);
  }
  return timer.take();
}

}  // namespace autopar::partition
