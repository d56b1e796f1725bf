#include "launch/plan/replan.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "io/file.h"
#include "io/input_error.h"
#include "io/read_cluster.h"
#include "io/read_plan.h"
#include "io/write_plan.h"

namespace autopar::launch {
namespace {

/// The plan's cluster by its name, if a description of that name comes with the program and is the same.
std::string known_cluster(const partition::WrittenPlan& plan) {
  try {
    const std::string path = io::cluster_path(plan.cluster_name, "");
    return io::content_hash(io::read_file(path)) == plan.cluster_hash ? plan.cluster_name : "";
  } catch (const io::InputError&) {
    return "";
  }
}

/// `option`: what names the file. Throws if it is not what the plan was made from.
void expect_same(const std::string& file, std::string_view what, std::string_view found, std::string_view wanted,
                 const std::string& plan_name, std::string_view option) {
  if (found == wanted) return;
  throw io::InputError(file, "",
                       fmt::format("{} was made from another {} ({}; this one is {}); give that one by {}", plan_name,
                                   what, wanted, found, option));
}

}  // namespace

Replanner::Replanner(std::string plan_name, const partition::WrittenPlan& plan, const PlanInputs& inputs)
    : plan_name_(std::move(plan_name)), plan_(plan) {
  if (plan.status == "random") {
    throw io::InputError(plan_name_, "result.status", "a random plan answers no search; search for the best one");
  }
  arguments_.model = inputs.model;
  arguments_.mesh = plan.mesh;
  arguments_.cluster = inputs.cluster.empty() ? known_cluster(plan) : inputs.cluster;
  arguments_.constraints = inputs.constraints;
  arguments_.has_overlap = plan.has_overlap;
  if (plan.constraints_hash && inputs.constraints.empty()) {
    throw io::InputError(plan_name_, "constraints_hash",
                         fmt::format("the plan was searched under a constraints file ({}); give it by --constraints",
                                     *plan.constraints_hash));
  }
  files_ = read_task_files(arguments_, io::read_file(inputs.model));
  task_.emplace(read_task(arguments_, files_));
  expect_same(inputs.model, "model", task_->source.model_hash, plan.model_hash, plan_name_, "--model");
  expect_same(files_.cluster_path.empty() ? inputs.model : files_.cluster_path, "cluster description",
              task_->source.cluster_hash, plan.cluster_hash, plan_name_, "--cluster");
  if (!inputs.constraints.empty()) {
    expect_same(inputs.constraints, "constraints file", task_->source.constraints_hash,
                plan.constraints_hash.value_or("none"), plan_name_, "--constraints");
  }
  build_task(*task_);
  solver_.emplace(arguments_.engine, comm_);
}

Task Replanner::task_with_pins(const std::string& name, const std::string& text) const {
  TaskFiles files = files_;
  files.pins_name = name;
  files.pins = text;
  Task task = read_task(arguments_, files);
  build_task(task);
  return task;
}

Task Replanner::task_with_constraints(const std::string& name, const std::string& text) const {
  Arguments arguments = arguments_;
  arguments.constraints = name;
  TaskFiles files = files_;
  files.constraints = text;
  Task task = read_task(arguments, files);
  build_task(task);
  return task;
}

Replanner::Found Replanner::search(const partition::Problem& problem, const costs::Redistributor& redistributor,
                                   const partition::ModelNetwork& model, const io::PlanSource& source,
                                   engine::Cost bound) {
  partition::PlanSearchInput input{problem, redistributor, &model};
  input.bound = bound;
  Found found;
  found.result = partition::search_plan(input, solver_->options(), *solver_);
  if (found.result.plan) {
    const io::PlanResult outcome{found.result.status, found.result.bound, found.result.stats};
    found.text = io::format_plan(found.result.problem, *found.result.plan, outcome, source, std::nullopt);
    found.plan = io::parse_plan("the plan found", found.text);
  }
  return found;
}

bool allows_no_more(const partition::Pins& narrow, const partition::Pins& wide) {
  const auto keeps = [](const std::vector<partition::Pin>& more, const std::vector<partition::Pin>& fewer) {
    for (std::size_t i = 0; i < fewer.size(); ++i) {
      for (std::size_t dim = 0; dim < fewer[i].at.size(); ++dim) {
        if (fewer[i].at[dim] && fewer[i].at[dim] != more[i].at[dim]) return false;
      }
    }
    return true;
  };
  return keeps(narrow.nodes, wide.nodes) && keeps(narrow.outputs, wide.outputs) &&
         narrow.memory_limit_bytes <= wide.memory_limit_bytes && narrow.recompute == wide.recompute &&
         narrow.compiled == wide.compiled && narrow.optimizer.bytes_per_element == wide.optimizer.bytes_per_element &&
         narrow.optimizer.master_bytes_per_element == wide.optimizer.master_bytes_per_element;
}

}  // namespace autopar::launch
