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

/// "423.6 ms compute (92.7%), 33.26 ms communication (7.3%); 116.2 ms more hide behind compute".
std::string times_text(engine::Cost cost_ps, engine::Cost compute_ps, engine::Cost communication_ps);

/// What the memory at the peak is for: "parameters 1.88 GiB, saved 27.3 GiB".
std::string memory_parts(const partition::PlanMemory& memory);

/// The plan as a person reads it: times, communication, memory, parameters, and what each mesh dim does.
std::string summary(const partition::Problem& problem, const partition::Plan& plan, const io::PlanResult& result,
                    const io::RunInfo& run);

/// One warning per op that has no sharding rule.
std::vector<std::string> unknown_op_warnings(const Task& task);

}  // namespace autopar::launch
