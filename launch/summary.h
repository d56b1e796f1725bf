#pragma once

#include <string>
#include <vector>

#include "engine/solve.h"
#include "io/write_plan.h"
#include "launch/task.h"
#include "partition/plan.h"
#include "partition/problem.h"

namespace autopar::launch {

/// How near `cost` is to the best that there is. `is_complete`: it is within the gap that was asked for.
std::string proof_text(engine::Cost cost, engine::Cost bound, bool is_complete);

/// What the memory at the peak is for: "parameters 1.88 GiB, saved 27.3 GiB".
std::string memory_parts(const partition::PlanMemory& memory);

/// The plan as a person reads it: times, communication, memory, parameters, and what each mesh dim does.
std::string summary(const partition::Problem& problem, const partition::Plan& plan, const io::PlanResult& result,
                    const io::RunInfo& run);

/// One warning per op that has no sharding rule.
std::vector<std::string> unknown_op_warnings(const Task& task);

}  // namespace autopar::launch
