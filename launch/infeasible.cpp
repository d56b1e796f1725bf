#include "launch/infeasible.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "launch/exit_codes.h"
#include "launch/fold_names.h"
#include "launch/summary.h"
#include "launch/units.h"
#include "partition/held_memory.h"
#include "partition/recompute.h"

namespace autopar::launch {
namespace {

constexpr std::size_t kMostTensors = 4;

std::string exact(std::int64_t bytes) { return fmt::format("{} ({} bytes)", bytes_text(bytes), bytes); }

/// Where memory is looked at.
std::string place(const partition::Problem& problem, const partition::PointId& point) {
  if (point.node < 0) return "at the optimizer's step";
  const costs::Node& node = problem.graph.nodes[static_cast<std::size_t>(point.node)];
  const char* phase = point.again || node.phase == costs::Phase::kBackward ? "backward" : "forward";
  const std::string key = fmt::format("{}{} ({})", node.key, point.again ? partition::kAgain : "", phase);
  const auto num_inputs = static_cast<std::int32_t>(node.inputs.size());
  if (point.place < num_inputs) return fmt::format("while input {} of {} is made", point.place, key);
  return fmt::format("{} {} {}", point.place == num_inputs ? "while" : "when", key,
                     point.place == num_inputs ? "runs" : "has run");
}

/// Tensors of one kind and size whose names differ in numbers only.
struct Group {
  std::int64_t bytes = 0;  ///< of all
  std::string kind;
  std::vector<NamedFacts> tensors;
};

std::string without_numbers(std::string name) {
  name.erase(std::remove_if(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; }),
             name.end());
  return name;
}

/// Of what `least.plan` holds at the point, the groups that take most.
std::vector<Group> largest_groups(const partition::LeastMemory& least, const partition::HeldMemory& memory) {
  const partition::Timeline timeline = partition::Timeline::of(least.problem.graph);
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const partition::HeldTensor& tensor : memory.held_at(least.time)) {
    const costs::Node& node = least.problem.graph.nodes[static_cast<std::size_t>(tensor.holding.value.node)];
    const partition::MemoryKind kind = partition::memory_kind(least.problem, timeline, tensor, least.time);
    std::string kind_name(partition::memory_kind_name(kind));
    if (kind == partition::MemoryKind::kParameters) kind_name = "parameters, optimizer";
    const std::string& name = node.name.empty() ? node.key : node.name;
    Group& group = groups[{kind_name, without_numbers(name)}];
    group.kind = kind_name;
    group.bytes += tensor.bytes;
    group.tensors.push_back({name, ""});
  }
  std::vector<Group> sorted;
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(sorted.begin(), sorted.end(), [](const Group& a, const Group& b) { return a.bytes > b.bytes; });
  if (sorted.size() > kMostTensors) sorted.resize(kMostTensors);
  return sorted;
}

std::string held_text(const partition::LeastMemory& least) {
  if (!least.plan) return "";
  partition::HeldMemory memory = partition::held_memory(least.problem, *least.plan);
  memory.peak_time = least.time;
  std::vector<std::string> tensors;
  for (const Group& group : largest_groups(least, memory)) {
    const std::vector<FoldedName> folded = fold_names(group.tensors);
    tensors.push_back(fmt::format("{}{} ({}) {}", folded.front().name, folded.size() > 1 ? " and others" : "",
                                  group.kind, bytes_text(group.bytes)));
  }
  return fmt::format(": {}; most of it for {}",
                     memory_parts(partition::plan_memory(least.problem, *least.plan, memory)),
                     fmt::join(tensors, ", "));
}

std::string larger_mesh(const costs::Mesh& mesh, std::int64_t times) {
  std::string dims;
  for (std::size_t i = 0; i < mesh.shape.size(); ++i) {
    dims += fmt::format("{}{}={}", i > 0 ? "," : "", mesh.dim_names[i], mesh.shape[i] * (i == 0 ? times : 1));
  }
  return fmt::format("{} devices (--mesh {})", mesh.num_devices() * times, dims);
}

std::string ways_out(const partition::Problem& problem, const Advice& advice) {
  std::vector<std::string> ways;
  if (advice.limit) {
    ways.push_back(fmt::format("with a limit of {} there is a plan of {} per step", exact(advice.limit->bytes),
                               time_text(advice.limit->step_ps)));
  }
  if (advice.recompute)
    ways.emplace_back(
        "without \"recompute\", so that the search chooses what runs again, there is one within the limit");
  if (!advice.pins.empty()) {
    ways.push_back(fmt::format("without {} {} there is one within the limit",
                               advice.pins.size() == 1 ? "the pin" : "the pins", fmt::join(advice.pins, " and ")));
  }
  if (advice.times_size) {
    ways.push_back(fmt::format("on {} there is one within the limit", larger_mesh(problem.mesh, *advice.times_size)));
  }
  if (ways.empty()) return "";
  return fmt::format(". What would help: {}", fmt::join(ways, "; "));
}

}  // namespace

std::string explain_contradiction(const partition::Problem& problem) {
  std::vector<std::string> sources = pin_sources(problem.pins);
  const auto is_declared = [](const costs::Node& node) { return !node.strategies.empty(); };
  const auto declared = std::find_if(problem.graph.nodes.begin(), problem.graph.nodes.end(), is_declared);
  if (declared != problem.graph.nodes.end()) {
    sources.push_back(fmt::format("the strategies that the model lists for \"{}\" and others", declared->key));
  }
  if (sources.empty()) return "infeasible: no combination of the ops' strategies is possible on this mesh";
  return fmt::format("infeasible: whatever the memory limit, these cannot hold together: {}", fmt::join(sources, "; "));
}

std::string explain_memory(const partition::Problem& problem, const Advice& advice, bool is_proven) {
  const std::string limit = exact(problem.pins.memory_limit_bytes);
  std::string text = is_proven ? fmt::format("infeasible: no plan keeps within {} per device", limit)
                               : fmt::format("no plan within {} per device was found, nor proven not to be", limit);
  const partition::LeastMemory& least = advice.least;
  if (least.bound_bytes > 0) {
    text += fmt::format(". Every plan needs at least {}, {}{}", exact(least.bound_bytes), place(problem, least.point),
                        held_text(least));
  }
  if (advice.too_low > least.bound_bytes) {
    text += fmt::format(". All places together need more than {}", exact(advice.too_low));
  }
  return text + ways_out(problem, advice);
}

NoPlan explain_lack_of_memory(const Task& task, const Arguments& arguments, const TaskFiles& files,
                              const partition::PlanSearchResult& found, partition::SharedSolver& solver) {
  const Advice advice = find_advice(task, arguments, files, found.points, solver);
  const bool is_proven =
      found.status == engine::Status::kInfeasible || advice.least.bound_bytes > task.problem.pins.memory_limit_bytes;
  return {is_proven ? kExitInfeasible : kExitNoSolution, explain_memory(task.problem, advice, is_proven)};
}

}  // namespace autopar::launch
