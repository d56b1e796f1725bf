#include "launch/plan/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/index.h"
#include "io/file.h"
#include "launch/advice.h"
#include "launch/exit_codes.h"
#include "launch/infeasible.h"
#include "launch/plan/diff.h"
#include "launch/plan/json_parts.h"
#include "launch/units.h"

namespace autopar::launch {
namespace {

using engine::ix;
using partition::Pin;
using partition::Problem;
using partition::WrittenPlan;

/// The problem without the pins of other sources than these.
Problem with_pins_of(const Problem& problem, const std::vector<std::string>& sources) {
  Problem fewer = problem;
  for (auto* pins : {&fewer.pins.nodes, &fewer.pins.outputs}) {
    for (Pin& pin : *pins) {
      if (std::find(sources.begin(), sources.end(), pin.source) == sources.end()) pin = {};
    }
  }
  return fewer;
}

bool has_plan(Replanner& replanner, const Problem& problem, const costs::Redistributor& redistributor) {
  try {
    const partition::ModelNetwork model = partition::build_network(problem, redistributor);
    engine::Options options = partition::with_effort(replanner.solver().options(), 1, 0);
    partition::PlanSearchInput input{problem, redistributor, &model};
    return partition::search_plan(input, options, replanner.solver()).status != engine::Status::kInfeasible;
  } catch (const partition::PinError&) {
    return false;
  }
}

/// A set of pins that cannot hold together, of which any one fewer can: one after the other is left out, as long as
/// there is no plan.
Problem minimal_conflict(Replanner& replanner, const Task& task) {
  std::vector<std::string> sources = pin_sources(task.problem.pins);
  for (std::size_t i = sources.size(); i-- > 0 && sources.size() > 1;) {
    std::vector<std::string> fewer = sources;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (!has_plan(replanner, with_pins_of(task.problem, fewer), *task.redistributor)) sources = std::move(fewer);
  }
  return with_pins_of(task.problem, sources);
}

/// Why no plan was found.
Answer why_none(Replanner& replanner, const Task& task, const partition::PlanSearchResult& found) {
  if (found.status == engine::Status::kInfeasible && found.points.empty()) {
    return {kExitInfeasible, explain_contradiction(minimal_conflict(replanner, task))};
  }
  NoPlan why = explain_lack_of_memory(task, replanner.arguments(), replanner.files(), found, replanner.solver());
  return {why.exit_code, std::move(why.text)};
}

/// Whether the plan is one that the pins allow.
bool fulfils(const WrittenPlan& plan, const Problem& problem) {
  std::unordered_map<std::string_view, const WrittenPlan::Node*> nodes;
  for (const WrittenPlan::Node& node : plan.nodes) nodes.emplace(node.key, &node);
  for (std::size_t i = 0; i < problem.pins.nodes.size(); ++i) {
    const Pin& pin = problem.pins.nodes[i];
    if (pin.source.empty()) continue;
    const auto found = nodes.find(problem.graph.nodes[i].key);
    if (found == nodes.end() || !pin.allows(*found->second->outputs[0])) return false;
  }
  for (std::size_t i = 0; i < problem.pins.outputs.size(); ++i) {
    const Pin& pin = problem.pins.outputs[i];
    if (!pin.source.empty() && !pin.allows(plan.outputs[i].placements)) return false;
  }
  return plan.memory.peak_bytes <= problem.pins.memory_limit_bytes;
}

std::string text_of(const NamedPlan& a, const NamedPlan& b, bool as_json, bool is_same) {
  if (!as_json) {
    return is_same ? fmt::format("The plan already does what the pins ask; it stays the best known, {}.\n",
                                 time_text(a.plan.cost_ps))
                   : diff_text(a, b);
  }
  Json json = diff_as_json(a, b);
  json["unchanged"] = is_same;
  return json.dump(1) + "\n";
}

/// "new.constraints.json" of "new.json": where the constraints go under which that plan was found.
std::string constraints_beside(const std::string& plan) {
  const std::string suffix = ".json";
  const std::string stem = plan.ends_with(suffix) ? plan.substr(0, plan.size() - suffix.size()) : plan;
  return stem + ".constraints" + suffix;
}

}  // namespace

Answer what_if(Replanner& replanner, const PinArguments& arguments, const std::string& output, bool as_json) {
  const PinConstraints constraints = read_pins(arguments, replanner.task());
  const WrittenPlan& plan = replanner.plan();
  const NamedPlan before{replanner.plan_name(), plan};
  std::optional<Task> task;
  try {
    task.emplace(replanner.task_with_pins(constraints.name, constraints.text));
  } catch (const partition::PinError& error) {
    return {kExitInfeasible, error.what()};
  }
  // A plan of fewer is no better than the best of more; and that one stays the best if it is among the fewer.
  const bool is_narrower = allows_no_more(task->problem.pins, replanner.task().problem.pins);
  if (is_narrower && output.empty() && fulfils(plan, task->problem)) {
    return {kExitOptimal, text_of(before, before, as_json, true)};
  }
  const Replanner::Found found =
      replanner.search(task->problem, *task->redistributor, task->model, task->source, is_narrower ? plan.bound_ps : 0);
  if (!found.plan) return why_none(replanner, *task, found.result);
  std::string text = text_of(before, {constraints.name, *found.plan}, as_json, false);
  if (output.empty()) return {kExitOptimal, std::move(text)};
  io::write_file(output, found.text);
  if (!as_json) text += fmt::format("\nPlan B written to {}\n", output);
  // Two layers of constraints are no file that one could give.
  if (replanner.arguments().constraints.empty()) {
    const std::string file = constraints_beside(output);
    io::write_file(file, constraints.text);
    if (!as_json) text += fmt::format("Its constraints written to {}, for --constraints\n", file);
  }
  return {kExitOptimal, std::move(text)};
}

PlanOrAnswer plan_under(Replanner& replanner, const std::string& constraints, const std::string& text) {
  try {
    const Task task = replanner.task_with_constraints(constraints, text);
    Replanner::Found found = replanner.search(task.problem, *task.redistributor, task.model, task.source, 0);
    if (found.plan) return {std::move(found.plan), {}};
    return {std::nullopt, why_none(replanner, task, found.result)};
  } catch (const partition::PinError& error) {
    return {std::nullopt, {kExitInfeasible, error.what()}};
  }
}

}  // namespace autopar::launch
