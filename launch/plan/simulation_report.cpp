#include "launch/plan/simulation_report.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "io/plan_totals.h"
#include "launch/units.h"

namespace autopar::launch {
namespace {

using partition::MemoryPoint;
using partition::SimulatedEvent;
using partition::Simulation;
using partition::WrittenPlan;

/// Rows of the trace.
constexpr std::size_t kComputeRow = 0;
constexpr std::size_t kWaitedRow = 1;
constexpr std::size_t kAheadRow = 2;

/// `part` of `whole` in percent.
double percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

const std::string& key_of(const WrittenPlan& plan, std::int32_t node) {
  return plan.nodes[static_cast<std::size_t>(node)].key;
}

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

/// Trace times are in microseconds; six digits keep picoseconds.
std::string microseconds(std::int64_t ps) { return fmt::format("{}.{:06}", ps / 1'000'000, ps % 1'000'000); }

void put_row_names(const WrittenPlan& plan, fmt::memory_buffer& buffer) {
  const auto put_row = [&](std::size_t row, const std::string& name) {
    fmt::format_to(
        std::back_inserter(buffer),
        "{{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 0, \"tid\": {}, \"args\": {{\"name\": {}}}}},\n", row,
        quoted(name));
  };
  fmt::format_to(std::back_inserter(buffer),
                 "{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 0, \"args\": {{\"name\": {}}}}}",
                 quoted(plan.model_name));
  fmt::format_to(std::back_inserter(buffer), ",\n");
  put_row(kComputeRow, "compute");
  put_row(kWaitedRow, "communication, waited for");
  put_row(kAheadRow, "communication, ahead");
}

void put_event(const WrittenPlan& plan, const SimulatedEvent& event, std::size_t row, fmt::memory_buffer& buffer) {
  fmt::format_to(std::back_inserter(buffer),
                 "{{\"ph\": \"X\", \"name\": {}, \"pid\": 0, \"tid\": {}, \"ts\": {}, \"dur\": {}, \"args\": {{",
                 quoted(event.label), row, microseconds(event.begin_ps), microseconds(event.end_ps - event.begin_ps));
  if (event.redistributions.empty()) {
    if (event.node >= 0) fmt::format_to(std::back_inserter(buffer), "\"node\": {}", quoted(key_of(plan, event.node)));
  } else {
    fmt::format_to(std::back_inserter(buffer), "\"mesh_dims\": {}, ",
                   nlohmann::json(io::mesh_dim_names(event.mesh_dims, plan.mesh)).dump());
    std::vector<std::string> values;
    for (const std::int32_t entry : event.redistributions) {
      values.push_back(key_of(plan, plan.redistributions[static_cast<std::size_t>(entry)].value.node));
    }
    fmt::format_to(std::back_inserter(buffer), "\"values\": {}", nlohmann::json(values).dump());
  }
  fmt::format_to(std::back_inserter(buffer), "}}}},\n");
}

}  // namespace

std::string simulation_text(const WrittenPlan& plan, const Simulation& simulation) {
  const std::int64_t step_ps = simulation.step_ps;
  std::string text = fmt::format("{} on {} device{} ({}) of {}\n\n", plan.model_name, plan.mesh.num_devices(),
                                 plan.mesh.num_devices() == 1 ? "" : "s", mesh_text(plan.mesh), plan.cluster_name);
  text += fmt::format("Simulated step  {}; the plan says {} ({:+.2f}%)\n", time_text(step_ps), time_text(plan.cost_ps),
                      percent(step_ps - plan.cost_ps, plan.cost_ps));
  text += fmt::format("Compute         {} ({:.1f}%)\n", time_text(simulation.compute_ps),
                      percent(simulation.compute_ps, step_ps));
  text += fmt::format("Communication   {}, exposed {} ({:.1f}%)\n", time_text(simulation.communication_ps),
                      time_text(simulation.exposed_ps()), percent(simulation.exposed_ps(), step_ps));
  text += fmt::format("Busy            compute {:.1f}%", percent(simulation.compute_busy_ps, step_ps));
  for (std::size_t dim = 0; dim < simulation.busy_ps.size(); ++dim) {
    text += fmt::format(", {} {:.1f}%", plan.mesh.dim_names[dim], percent(simulation.busy_ps[dim], step_ps));
  }
  if (simulation.memory.empty()) return text + "\n";
  const MemoryPoint& peak = simulation.peak();
  text += fmt::format("\nMemory          {} of {} at the peak, {} at {}\n", bytes_text(peak.bytes),
                      bytes_text(plan.memory_limit_bytes),
                      peak.node < 0 ? "behind the last op" : key_of(plan, peak.node), time_text(peak.time_ps));
  return text;
}

std::string simulation_json(const WrittenPlan& plan, const Simulation& simulation) {
  nlohmann::ordered_json streams = {{"compute", simulation.compute_busy_ps}};
  nlohmann::ordered_json mesh_dims = nlohmann::ordered_json::object();
  for (std::size_t dim = 0; dim < simulation.busy_ps.size(); ++dim) {
    mesh_dims[plan.mesh.dim_names[dim]] = simulation.busy_ps[dim];
  }
  streams["mesh_dims"] = mesh_dims;
  nlohmann::ordered_json peak = nullptr;
  if (!simulation.memory.empty()) {
    const MemoryPoint& highest = simulation.peak();
    peak = {{"bytes", highest.bytes}, {"node", nullptr}, {"time_ps", highest.time_ps}};
    if (highest.node >= 0) peak["node"] = key_of(plan, highest.node);
  }
  const nlohmann::ordered_json json = {{"model", plan.model_name},
                                       {"step_ps", simulation.step_ps},
                                       {"plan_ps", plan.cost_ps},
                                       {"difference_percent", percent(simulation.step_ps - plan.cost_ps, plan.cost_ps)},
                                       {"compute_ps", simulation.compute_ps},
                                       {"communication_ps", simulation.communication_ps},
                                       {"exposed_ps", simulation.exposed_ps()},
                                       {"busy_ps", streams},
                                       {"peak", peak}};
  return json.dump(2) + "\n";
}

std::string chrome_trace(const WrittenPlan& plan, const Simulation& simulation) {
  fmt::memory_buffer buffer;
  fmt::format_to(std::back_inserter(buffer), "{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
  put_row_names(plan, buffer);
  for (const SimulatedEvent& event : simulation.events) {
    put_event(plan, event, event.mesh_dims == 0 ? kComputeRow : event.is_ahead ? kAheadRow : kWaitedRow, buffer);
  }
  for (const MemoryPoint& point : simulation.memory) {
    fmt::format_to(std::back_inserter(buffer),
                   "{{\"ph\": \"C\", \"name\": \"memory\", \"pid\": 0, \"ts\": {}, \"args\": {{\"bytes\": {}}}}},\n",
                   microseconds(point.time_ps), point.bytes);
  }
  // JSON allows no comma behind the last event.
  fmt::format_to(std::back_inserter(buffer),
                 "{{\"ph\": \"I\", \"name\": \"end of step\", \"pid\": 0, \"tid\": 0, \"ts\": {}}}\n]}}\n",
                 microseconds(simulation.step_ps));
  return fmt::to_string(buffer);
}

}  // namespace autopar::launch
