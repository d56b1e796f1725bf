#include "partition/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <optional>
#include <utility>

#include "costs/placement.h"
#include "costs/views.h"
#include "engine/index.h"

namespace autopar::partition {
namespace {

using costs::Phase;
using engine::ix;
using Entry = WrittenPlan::Redistribution;
using Kind = costs::RedistributeStep::Kind;

/// The streams of a device, and what ran on them.
class Streams {
 public:
  Streams(Simulation& simulation, std::size_t num_mesh_dims) : simulation_(simulation) {
    simulation.busy_ps.assign(num_mesh_dims, 0);
  }

  /// When the compute stream is free.
  std::int64_t now_ps() const { return now_ps_; }
  void wait_until(std::int64_t time_ps) { now_ps_ = std::max(now_ps_, time_ps); }

  void compute(std::int64_t duration_ps, SimulatedEvent event) {
    simulation_.compute_busy_ps += duration_ps;
    event.begin_ps = now_ps_;
    now_ps_ += duration_ps;
    event.end_ps = now_ps_;
    add(std::move(event));
  }

  /// Runs a collective, for which compute waits.
  void communicate(std::int64_t duration_ps, SimulatedEvent event) {
    event.begin_ps = now_ps_;
    now_ps_ += duration_ps;
    event.end_ps = now_ps_;
    add_collective(duration_ps, std::move(event));
  }

  /// The same, but `hidden_ps` of it run beside the op before it (`is_behind`), or the one behind it.
  void pipeline(std::int64_t duration_ps, std::int64_t hidden_ps, bool is_behind, SimulatedEvent event) {
    event.begin_ps = is_behind ? now_ps_ - hidden_ps : now_ps_;
    event.end_ps = event.begin_ps + duration_ps;
    now_ps_ += duration_ps - hidden_ps;
    add_collective(duration_ps, std::move(event));
  }

  /// Issues a collective that runs ahead; returns when it ends.
  std::int64_t issue(std::int64_t duration_ps, SimulatedEvent event) {
    event.is_ahead = true;
    event.begin_ps = std::max(now_ps_, ahead_free_ps_);
    ahead_free_ps_ = event.begin_ps + duration_ps;
    event.end_ps = ahead_free_ps_;
    add_collective(duration_ps, std::move(event));
    return ahead_free_ps_;
  }

 private:
  void add_collective(std::int64_t duration_ps, SimulatedEvent event) {
    for (std::size_t dim = 0; dim < simulation_.busy_ps.size(); ++dim) {
      if ((event.mesh_dims >> dim & 1U) != 0) simulation_.busy_ps[dim] += duration_ps;
    }
    simulation_.communication_ps += duration_ps;
    add(std::move(event));
  }

  void add(SimulatedEvent event) {
    if (event.end_ps > event.begin_ps) simulation_.events.push_back(std::move(event));
  }

  Simulation& simulation_;
  std::int64_t now_ps_ = 0;
  std::int64_t ahead_free_ps_ = 0;  // the stream of what runs ahead
};

/// Collectives that are issued as one.
struct Bucket {
  Kind kind = Kind::kAllGather;
  std::uint32_t mesh_dims = 0;
  costs::DType dtype = costs::DType::kFloat32;
  costs::Placement reduced;  // before it: says with which reduction
  std::vector<std::int32_t> entries;

  bool takes(const Bucket& other) const {
    return kind != Kind::kAllToAll && kind == other.kind && mesh_dims == other.mesh_dims && dtype == other.dtype &&
           reduced == other.reduced;
  }
};

class Simulator {
 public:
  explicit Simulator(const WrittenPlan& plan)
      : plan_(plan),
        streams_(simulation_, plan.mesh.shape.size()),
        state_(plan.redistributions.size(), State::kIdle),
        end_ps_(plan.redistributions.size(), 0),
        has_run_(plan.nodes.size(), 0),
        reads_(plan.nodes.size()),
        hands_out_(plan.nodes.size()),
        starts_(plan.nodes.size()),
        finishes_(plan.nodes.size()) {
    for (std::size_t i = 0; i < plan.redistributions.size(); ++i) {
      const Entry& entry = plan.redistributions[i];
      const auto index = static_cast<std::int32_t>(i);
      for (const Redistribution::Use& use : entry.uses) {
        if (use.input >= 0) {
          reads_[ix(use.node)].emplace_back(use.input, index);
        } else if (entry.start < 0) {
          hands_out_[ix(entry.value.node)].push_back(index);
        }
      }
      if (entry.start >= 0) starts_[ix(entry.start)].push_back(index);
      if (entry.finish >= 0) finishes_[ix(entry.finish)].push_back(index);
    }
    for (auto& reads : reads_) std::sort(reads.begin(), reads.end());
  }

  Simulation run() {
    run_phase(Phase::kForward);
    run_phase(Phase::kBackward);
    // The parts of the peak behind the last node are known only where it is the highest.
    if (plan_.memory.peak_node < 0) simulation_.memory.push_back({streams_.now_ps(), -1, plan_.memory.peak_bytes});
    std::int64_t optimizer_ps = 0;
    for (const WrittenPlan::Node& node : plan_.nodes) {
      simulation_.compute_ps += node.compute_ps;
      if (!node.phase) optimizer_ps += node.compute_ps;
    }
    SimulatedEvent event;
    event.label = "optimizer";
    streams_.compute(optimizer_ps, std::move(event));
    simulation_.step_ps = streams_.now_ps();
    return std::move(simulation_);
  }

 private:
  enum class State : std::uint8_t { kIdle, kIssued, kDone };

  void run_phase(Phase phase) {
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      const auto node = static_cast<std::int32_t>(i);
      if (plan_.nodes[i].phase != phase) continue;
      for (const std::int32_t entry : finishes_[i]) finish(entry);
      start(starts_[i]);
      if (can_wait(node)) {
        put_off_.push_back(node);
      } else {
        run_node(node);
      }
    }
    // Behind the last node: what is waited for at the end of the phase, what is saved, what only outputs read.
    for (std::size_t i = 0; i < plan_.redistributions.size(); ++i) {
      if (plan_.redistributions[i].phase == phase && state_[i] == State::kIssued) finish(static_cast<std::int32_t>(i));
    }
    for (std::size_t i = 0; i < plan_.redistributions.size(); ++i) {
      if (plan_.redistributions[i].phase == phase) need(static_cast<std::int32_t>(i));
    }
  }

  // ---- nodes ----

  /// Views and casts of gradients that are still on their way do not hold up what stands behind them.
  bool can_wait(std::int32_t node) const {
    const WrittenPlan::Node& own = plan_.nodes[ix(node)];
    if (own.phase != Phase::kBackward || !costs::is_cast_or_view(own.op)) return false;
    return std::any_of(reads_[ix(node)].begin(), reads_[ix(node)].end(),
                       [&](const auto& read) { return is_on_its_way(read.second); });
  }

  bool is_on_its_way(std::int32_t index) const {
    const Entry& entry = plan_.redistributions[ix(index)];
    if (state_[ix(index)] == State::kDone) return false;
    const std::optional<Phase> made_in = plan_.nodes[ix(entry.value.node)].phase;
    if (entry.start >= 0 && made_in == Phase::kBackward) return true;
    if (entry.source >= 0) return is_on_its_way(entry.source);
    return std::find(put_off_.begin(), put_off_.end(), entry.value.node) != put_off_.end();
  }

  /// Those that need not wait any more, in order.
  void run_put_off() {
    for (std::size_t i = 0; i < put_off_.size();) {
      const std::int32_t node = put_off_[i];
      if (can_wait(node)) {
        ++i;
      } else {
        run_node(node);  // which takes it, and perhaps others, off the list
        i = 0;
      }
    }
  }

  void run_node(std::int32_t node) {
    if (has_run_[ix(node)] != 0) return;
    has_run_[ix(node)] = 1;
    std::erase(put_off_, node);
    const WrittenPlan::Node& own = plan_.nodes[ix(node)];
    simulation_.memory.push_back({streams_.now_ps(), node, plan_.memory.node_bytes[ix(node)]});
    for (const auto& [input, entry] : reads_[ix(node)]) need(entry);
    streams_.compute(own.compute_ps, {0, 0, 0, false, own.op, node, {}});
    // Where among the op's own work the program reduces is not written; the time is the same.
    for (const costs::ProgramAllReduce& one : own.all_reduces) {
      std::string label(costs::step_name(Kind::kAllReduce));
      streams_.communicate(one.time_ps, {0, 0, 1U << one.mesh_dim, false, std::move(label), node, {}});
    }
    for (const std::int32_t entry : hands_out_[ix(node)]) need(entry);
  }

  // ---- redistributions ----

  /// Has an entry done, waiting as long as it takes.
  void need(std::int32_t index) {
    if (state_[ix(index)] == State::kIssued) finish(index);
    if (state_[ix(index)] == State::kDone) return;
    make_source(index);
    const Entry& entry = plan_.redistributions[ix(index)];
    if (entry.pipelined_ps > 0) {
      const WrittenPlan::Step& only = entry.steps[0];
      streams_.pipeline(only.time_ps, entry.pipelined_ps, only.kind == Kind::kReduceScatter,
                        event_of({index}, only.kind, only.mesh_dims));
    } else {
      for (const WrittenPlan::Step& step : entry.steps) run_step(index, step);
    }
    state_[ix(index)] = State::kDone;
    run_put_off();
  }

  void make_source(std::int32_t index) {
    const Entry& entry = plan_.redistributions[ix(index)];
    if (entry.source >= 0) {
      need(entry.source);
    } else if (plan_.nodes[ix(entry.value.node)].phase) {
      run_node(entry.value.node);
    }
  }

  SimulatedEvent event_of(const std::vector<std::int32_t>& entries, Kind kind, std::uint32_t mesh_dims) const {
    std::string label(costs::step_name(kind));
    if (entries.size() > 1) label += fmt::format(" x{}", entries.size());
    return {0, 0, mesh_dims, false, std::move(label), plan_.redistributions[ix(entries.front())].value.node, entries};
  }

  void run_step(std::int32_t index, const WrittenPlan::Step& step) {
    if (costs::collective_of(step.kind)) {
      streams_.communicate(step.time_ps, event_of({index}, step.kind, step.mesh_dims));
    } else {
      streams_.compute(step.time_ps, event_of({index}, step.kind, 0));
    }
  }

  /// Starts entries at one turn.
  void start(const std::vector<std::int32_t>& entries) {
    for (const std::int32_t index : entries) make_source(index);
    std::vector<Bucket> buckets;
    for (const std::int32_t index : entries) {
      if (state_[ix(index)] != State::kIdle) continue;  // read before it was started
      const Entry& entry = plan_.redistributions[ix(index)];
      const std::ptrdiff_t last = costs::last_collective(entry.steps);
      if (last < 0) {
        need(index);
        continue;
      }
      for (std::ptrdiff_t i = 0; i < last; ++i) run_step(index, entry.steps[static_cast<std::size_t>(i)]);
      put_in_bucket(index, last, buckets);
    }
    for (const Bucket& bucket : buckets) issue(bucket);
  }

  void put_in_bucket(std::int32_t index, std::ptrdiff_t last, std::vector<Bucket>& buckets) const {
    const Entry& entry = plan_.redistributions[ix(index)];
    const WrittenPlan::Step& step = entry.steps[static_cast<std::size_t>(last)];
    Bucket own{step.kind, step.mesh_dims, entry.dtype, {}, {index}};
    if (step.kind == Kind::kReduceScatter || step.kind == Kind::kAllReduce) {
      const costs::Placements& before = last > 0 ? entry.steps[static_cast<std::size_t>(last - 1)].to : entry.from;
      own.reduced = before[std::countr_zero(step.mesh_dims)];
    }
    const auto found =
        std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& bucket) { return bucket.takes(own); });
    if (found == buckets.end()) {
      buckets.push_back(std::move(own));
    } else {
      found->entries.push_back(index);
    }
  }

  void issue(const Bucket& bucket) {
    std::int64_t startup_ps = 0;
    std::int64_t bytes_ps = 0;
    for (const std::int32_t index : bucket.entries) {
      const Entry& entry = plan_.redistributions[ix(index)];
      const WrittenPlan::Step& step = entry.steps[static_cast<std::size_t>(costs::last_collective(entry.steps))];
      startup_ps = std::max(startup_ps, step.startup_ps);
      bytes_ps += step.time_ps - step.startup_ps;
    }
    const std::int64_t end_ps =
        streams_.issue(startup_ps + bytes_ps, event_of(bucket.entries, bucket.kind, bucket.mesh_dims));
    for (const std::int32_t index : bucket.entries) {
      state_[ix(index)] = State::kIssued;
      end_ps_[ix(index)] = end_ps;
    }
  }

  void finish(std::int32_t index) {
    if (state_[ix(index)] != State::kIssued) return;  // something has read it already
    streams_.wait_until(end_ps_[ix(index)]);
    const Entry& entry = plan_.redistributions[ix(index)];
    for (auto i = static_cast<std::size_t>(costs::last_collective(entry.steps)) + 1; i < entry.steps.size(); ++i) {
      run_step(index, entry.steps[i]);
    }
    state_[ix(index)] = State::kDone;
    run_put_off();
  }

  const WrittenPlan& plan_;
  Simulation simulation_;
  Streams streams_;
  std::vector<State> state_;          // per entry
  std::vector<std::int64_t> end_ps_;  // per entry that is issued
  std::vector<char> has_run_;         // per node
  std::vector<std::int32_t> put_off_;
  // Per node:
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> reads_;  // input, and the entry that gives it
  std::vector<std::vector<std::int32_t>> hands_out_;  // entries that run behind it, for outputs of the graph
  std::vector<std::vector<std::int32_t>> starts_;
  std::vector<std::vector<std::int32_t>> finishes_;
};

}  // namespace

const MemoryPoint& Simulation::peak() const {
  return *std::max_element(memory.begin(), memory.end(),
                           [](const MemoryPoint& a, const MemoryPoint& b) { return a.bytes < b.bytes; });
}

Simulation simulate(const WrittenPlan& plan) { return Simulator(plan).run(); }

}  // namespace autopar::partition
