#pragma once

#include <string>

#include "launch/plan/json_parts.h"
#include "partition/written_plan.h"

namespace autopar::launch {

/// A plan with the name that messages and tables call it by.
struct NamedPlan {
  std::string name;
  const partition::WrittenPlan& plan;
};

/// What differs between two plans, also of different meshes: times, memory, collectives, and modules, equal layers
/// folded.
std::string diff_text(const NamedPlan& a, const NamedPlan& b);

/// The same as JSON (docs/plan-tools.md).
Json diff_as_json(const NamedPlan& a, const NamedPlan& b);

}  // namespace autopar::launch
