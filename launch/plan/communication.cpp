#include "launch/plan/communication.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "engine/index.h"

namespace autopar::launch {
namespace {

using engine::ix;
using partition::SimulatedEvent;
using partition::Simulation;
using partition::WrittenPlan;
using Kind = costs::RedistributeStep::Kind;

/// Times in which something happens: intervals that ascend and do not overlap.
class BusyTimes {
 public:
  /// `intervals`: (begin, end), which may overlap.
  explicit BusyTimes(std::vector<std::pair<std::int64_t, std::int64_t>> intervals) {
    std::sort(intervals.begin(), intervals.end());
    for (const auto& [begin, end] : intervals) {
      if (!ends_.empty() && begin <= ends_.back()) {
        ends_.back() = std::max(ends_.back(), end);
      } else {
        begins_.push_back(begin);
        ends_.push_back(end);
      }
    }
    before_.push_back(0);
    for (std::size_t i = 0; i < begins_.size(); ++i) before_.push_back(before_.back() + ends_[i] - begins_[i]);
  }

  /// Of [begin, end), how much is not busy.
  std::int64_t idle_between(std::int64_t begin, std::int64_t end) const {
    return (end - begin) - (busy_until(end) - busy_until(begin));
  }

 private:
  std::int64_t busy_until(std::int64_t time) const {
    const auto next =
        static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), time) - begins_.begin());
    if (next == 0) return 0;
    return before_[next - 1] + std::min(time, ends_[next - 1]) - begins_[next - 1];
  }

  std::vector<std::int64_t> begins_;
  std::vector<std::int64_t> ends_;
  std::vector<std::int64_t> before_;  // busy time in all intervals before
};

/// Those of events that `wanted` picks.
template <typename Wanted>
BusyTimes busy_times(const Simulation& simulation, const Wanted& wanted) {
  std::vector<std::pair<std::int64_t, std::int64_t>> intervals;
  for (const SimulatedEvent& event : simulation.events) {
    if (wanted(event)) intervals.emplace_back(event.begin_ps, event.end_ps);
  }
  return BusyTimes(std::move(intervals));
}

class Rows {
 public:
  explicit Rows(const WrittenPlan& plan) : plan_(plan) {
    for (const WrittenPlan::Node& node : plan.nodes) {
      for (const costs::ProgramAllReduce& one : node.all_reduces) {
        add(at(1U << one.mesh_dim, Kind::kAllReduce, *node.phase), one.bytes, one.time_ps);
      }
    }
    for (const WrittenPlan::Redistribution& entry : plan.redistributions) {
      for (const WrittenPlan::Step& step : entry.steps) {
        // Zeros in place of all but one device's copy move nothing, but take time among communication.
        if (costs::collective_of(step.kind) || step.time_ps > 0) {
          add(at(step.mesh_dims, step.kind, entry.phase), step.bytes, step.time_ps);
        }
      }
    }
  }

  /// A collective hides behind compute; one that runs ahead does not add to what is waited for at the same time.
  void add_exposed(const Simulation& simulation) {
    const auto computes = [](const SimulatedEvent& event) { return event.mesh_dims == 0; };
    const BusyTimes compute = busy_times(simulation, computes);
    const BusyTimes not_ahead = busy_times(simulation, [](const SimulatedEvent& event) { return !event.is_ahead; });
    for (const SimulatedEvent& event : simulation.events) {
      if (computes(event)) continue;
      at(event.mesh_dims, kind_of(event), phase_of(event)).exposed_ps +=
          (event.is_ahead ? not_ahead : compute).idle_between(event.begin_ps, event.end_ps);
    }
  }

  std::vector<CommunicationRow> take() {
    std::vector<CommunicationRow> list;
    for (const auto& [key, row] : rows_) list.push_back(row);
    return list;
  }

 private:
  CommunicationRow& at(std::uint32_t mesh_dims, Kind kind, costs::Phase phase) {
    CommunicationRow& row = rows_[{mesh_dims, kind, phase}];
    row.mesh_dims = mesh_dims;
    row.kind = kind;
    row.phase = phase;
    return row;
  }

  static void add(CommunicationRow& row, std::int64_t bytes, std::int64_t time_ps) {
    ++row.count;
    row.bytes += bytes;
    row.time_ps += time_ps;
  }

  costs::Phase phase_of(const SimulatedEvent& event) const {
    return event.redistributions.empty() ? *plan_.nodes[ix(event.node)].phase
                                         : plan_.redistributions[ix(event.redistributions.front())].phase;
  }

  /// Of what is no compute. Its label is the step's name; behind that of a bucket stands how many it has.
  static Kind kind_of(const SimulatedEvent& event) {
    const std::string_view name = std::string_view(event.label).substr(0, event.label.find(' '));
    for (const Kind kind : {Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll, Kind::kZero, Kind::kSlice}) {
      if (costs::step_name(kind) == name) return kind;
    }
    return Kind::kAllReduce;
  }

  const WrittenPlan& plan_;
  std::map<std::tuple<std::uint32_t, Kind, costs::Phase>, CommunicationRow> rows_;
};

}  // namespace

std::vector<CommunicationRow> communication_rows(const WrittenPlan& plan, const Simulation& simulation) {
  Rows rows(plan);
  rows.add_exposed(simulation);
  return rows.take();
}

}  // namespace autopar::launch
