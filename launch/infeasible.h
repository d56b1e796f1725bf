#pragma once

#include <string>

#include "launch/advice.h"
#include "launch/cli.h"
#include "launch/task.h"
#include "partition/plan_search.h"
#include "partition/problem.h"
#include "partition/shared_solver.h"

namespace autopar::launch {

/// Why nothing fulfils the constraints of `problem`, whatever the memory limit.
std::string explain_contradiction(const partition::Problem& problem);

/// What plans of `problem` need at least, where and for what, and what would let one fit. `is_proven`: no plan keeps
/// the memory limit; otherwise none was found.
std::string explain_memory(const partition::Problem& problem, const Advice& advice, bool is_proven);

/// Why a search found no plan.
struct NoPlan {
  int exit_code = 0;  ///< kExitInfeasible, or kExitNoSolution if that is not proven
  std::string text;
};

/// Of a search that memory left without a plan: looks for ways out (find_advice) and says what it found.
NoPlan explain_lack_of_memory(const Task& task, const Arguments& arguments, const TaskFiles& files,
                              const partition::PlanSearchResult& found, partition::SharedSolver& solver);

}  // namespace autopar::launch
