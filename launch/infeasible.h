#pragma once

#include <string>

#include "launch/advice.h"
#include "partition/problem.h"

namespace autopar::launch {

/// Why nothing fulfils the constraints of `problem`, whatever the memory limit.
std::string explain_contradiction(const partition::Problem& problem);

/// What plans of `problem` need at least, where and for what, and what would let one fit. `is_proven`: no plan keeps
/// the memory limit; otherwise none was found.
std::string explain_memory(const partition::Problem& problem, const Advice& advice, bool is_proven);

}  // namespace autopar::launch
