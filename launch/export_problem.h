#pragma once

#include <string>

#include "launch/task.h"

namespace autopar::launch {

/// The text of a cost table of the model: its network without overlap and with memory at all time points
/// at which it can exceed the limit; nothing runs again but what the constraints say (docs/cost-tables.md). Throws
/// partition::PinError.
std::string exported_problem(const Task& task);

}  // namespace autopar::launch
