#pragma once

#include <string>

#include "partition/written_plan.h"

namespace autopar::launch {

/// The plan as a person reads it: times, memory at the peak, collectives, and what happens to each module, equal layers
/// folded.
std::string show_text(const partition::WrittenPlan& plan);

/// The same as JSON (docs/plan-tools.md).
std::string show_json(const partition::WrittenPlan& plan);

}  // namespace autopar::launch
