#pragma once

#include <cstdint>
#include <string>

#include "partition/problem.h"

namespace autopar::launch {

/// Least bytes per device for parameters, gradients and optimizer state: each parameter cut as far as the mesh and, if
/// `with_pins`, its pin allow.
std::int64_t least_parameter_bytes(const partition::Problem& problem, bool with_pins);

/// Why no plan fulfils the constraints of `problem`, as far as it can be told without a search.
std::string explain_infeasible(const partition::Problem& problem);

}  // namespace autopar::launch
