#pragma once

#include <string>

#include "partition/simulate.h"
#include "partition/written_plan.h"

namespace autopar::launch {

/// The timeline as a person reads it: the step beside the plan's own figure, what each stream does, the memory.
std::string simulation_text(const partition::WrittenPlan& plan, const partition::Simulation& simulation);

/// The same as JSON (docs/simulate.md), times in picoseconds.
std::string simulation_json(const partition::WrittenPlan& plan, const partition::Simulation& simulation);

/// All events and the memory in the Trace Event Format of Chrome and Perfetto: one row per stream.
std::string chrome_trace(const partition::WrittenPlan& plan, const partition::Simulation& simulation);

}  // namespace autopar::launch
