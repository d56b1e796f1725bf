#pragma once

#include <string>
#include <vector>

#include "engine/solve.h"
#include "launch/task.h"
#include "partition/plan_search.h"
#include "partition/shared_solver.h"

namespace autopar::launch {

/// Plans that trade step time for memory.
struct Frontier {
  struct Point {
    std::int64_t memory_limit_bytes = 0;  ///< under which it was searched for
    partition::PlanSearchResult found;    ///< with a plan
  };
  std::vector<Point> points;  ///< less memory and more time with each
  /// The search that found no plan any more.
  std::int64_t last_limit_bytes = 0;
  engine::Status last_status = engine::Status::kNoSolution;
};

/// The plans of least time under ever smaller limits (the ε-constraint method; Haimes, Lasdon, Wismer 1971), until none
/// is found: each limit leaves some per cent of what the plan before needs at its peak. `fastest`: under the task's own
/// limit. A plan that a later one beats in time, which an unproven one may be, is left out. Rank 0 calls this.
Frontier search_frontier(const Task& task, const engine::Options& options, partition::SharedSolver& solver,
                         partition::PlanSearchResult fastest);

/// The file of the plan number `index` (0: `output` itself): plan.json, plan.2.json, ...
std::string frontier_plan_path(const std::string& output, std::size_t index);
/// The file that lists them: plan.frontier.json.
std::string frontier_path(const std::string& output);

/// The text of that file (docs/frontier.md).
std::string format_frontier(const Frontier& frontier, const std::string& output);

/// The frontier as a person reads it.
std::string frontier_table(const Frontier& frontier, const std::string& output);

}  // namespace autopar::launch
