#include "partition/overlap.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "costs/compute.h"
#include "costs/views.h"
#include "engine/index.h"

namespace autopar::partition {

using costs::Graph;
using costs::Node;
using costs::Phase;
using costs::RedistributeStep;

using engine::ix;

MatmulNeighbours::MatmulNeighbours(const Graph& graph, const std::vector<PhaseUses>& uses) {
  std::vector<char> gives(graph.nodes.size(), 0);  // what a matmul gives, also through views
  std::vector<char> reads(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool passes_on = costs::is_view(node.op) && !node.inputs.empty() && gives[ix(node.inputs[0].node)] != 0;
    gives[i] = costs::is_matmul(node.op) || passes_on ? 1 : 0;
    if (costs::is_matmul(node.op)) reads[i] = 1;
  }
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    if (reads[i] == 0) continue;
    for (const costs::ValueRef& input : graph.nodes[i].inputs) {
      if (costs::is_view(graph.nodes[ix(input.node)].op)) reads[ix(input.node)] = 1;
    }
  }
  for (const PhaseUses& one : uses) {
    is_behind_.push_back(gives[ix(one.value.node)]);
    is_before_.push_back(std::any_of(one.uses.begin(), one.uses.end(), [&](const Redistribution::Use& use) {
      return use.input >= 0 && reads[ix(use.node)] != 0;
    }));
  }
}

std::int64_t StepTime::total_ps() const {
  std::int64_t sum = exposed_ps + optimizer_ps;
  for (const WindowTime& window : windows) sum += window.compute_ps + window.uncovered_ps();
  return sum;
}

CommunicationTime communication_time(const std::vector<RedistributeStep>& steps, bool has_flight, bool is_behind_matmul,
                                     bool is_before_matmul, const costs::Device& device) {
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
  } else if (steps.size() == 1 && ((steps[0].kind == RedistributeStep::Kind::kAllGather && is_before_matmul) ||
                                   (steps[0].kind == RedistributeStep::Kind::kReduceScatter && is_behind_matmul))) {
    time.exposed_ps = std::llround(static_cast<double>(time.exposed_ps) * (1 - device.matmul_overlap));
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

StepTime step_time(const Problem& problem, const Plan& plan, const std::vector<PhaseUses>& uses,
                   const Windows& windows) {
  const MatmulNeighbours matmuls(problem.graph, uses);
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
    timer.communicate(windows.hides_in(one.flight), windows.is_prefetch(entry),
                      communication_time(one.steps, one.flight.exists(), matmuls.is_behind(entry),
                                         matmuls.is_before(entry), problem.cluster.device));
  }
  return timer.take();
}

}  // namespace autopar::partition
