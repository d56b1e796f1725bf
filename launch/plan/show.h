#pragma once

#include <string>

#include "partition/written_plan.h"

namespace autopar::launch {

/// What it is a plan of: "llama8b on 32 devices (dp=8, tp=4) of h100".
std::string subject_text(const partition::WrittenPlan& plan);

/// The plan as a person reads it: times, memory at the peak, collectives, and what happens to each module, equal layers
/// folded.
std::string show_text(const partition::WrittenPlan& plan);

/// The same as JSON (docs/plan-tools.md).
std::string show_json(const partition::WrittenPlan& plan);

}  // namespace autopar::launch
