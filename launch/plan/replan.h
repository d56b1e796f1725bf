#pragma once

#include <optional>
#include <string>

#include "engine/comm.h"
#include "launch/cli.h"
#include "launch/task.h"
#include "partition/plan_search.h"
#include "partition/shared_solver.h"
#include "partition/written_plan.h"

namespace autopar::launch {

/// The files that a plan was searched with.
struct PlanInputs {
  std::string model;
  std::string cluster;      ///< empty: the plan's, if its description comes with the program, or the model file's
  std::string constraints;  ///< empty: there were none
};

/// Searches again as a plan was searched for, with something changed: same model, mesh, cluster, constraints, overlap.
class Replanner {
 public:
  /// Throws io::InputError if a file is not the one that the plan was made from; `plan_name` is for messages.
  Replanner(std::string plan_name, const partition::WrittenPlan& plan, const PlanInputs& inputs);

  const std::string& plan_name() const { return plan_name_; }
  const partition::WrittenPlan& plan() const { return plan_; }
  /// The problem that the plan was the answer to, with its network.
  const Task& task() const { return *task_; }
  const Arguments& arguments() const { return arguments_; }
  const TaskFiles& files() const { return files_; }
  partition::SharedSolver& solver() { return *solver_; }

  /// The problem with the pins of a constraints file's text over its own, priced. Throws io::InputError, and
  /// partition::PinError where a node has no choice left.
  Task task_with_pins(const std::string& name, const std::string& text) const;

  /// That of the plan, with other constraints in place of its own. They may be those of an older plan: nothing is
  /// compared.
  Task task_with_constraints(const std::string& name, const std::string& text) const;

  struct Found {
    partition::PlanSearchResult result;
    std::string text;                            ///< plan.json, if a plan was found
    std::optional<partition::WrittenPlan> plan;  ///< what is in it
  };
  /// The best plan of `problem`, a variant of the task's, with its network. `bound`: no plan costs less, if that is
  /// known.
  Found search(const partition::Problem& problem, const costs::Redistributor& redistributor,
               const partition::ModelNetwork& model, const io::PlanSource& source, engine::Cost bound);

 private:
  std::string plan_name_;
  const partition::WrittenPlan& plan_;
  Arguments arguments_;
  TaskFiles files_;
  std::optional<Task> task_;
  engine::Comm comm_;  // of this process alone
  std::optional<partition::SharedSolver> solver_;
};

/// Whether all that `narrow` allows, `wide` allows too: both are problems of one graph and mesh.
bool allows_no_more(const partition::Pins& narrow, const partition::Pins& wide);

}  // namespace autopar::launch
