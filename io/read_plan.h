#pragma once

#include <string>

#include "partition/written_plan.h"

namespace autopar::io {

/// Reads a plan.json (docs/plan-json.md), or one compressed by gzip. Throws InputError on anything that the format does
/// not allow, and where parts of the plan do not fit each other.
partition::WrittenPlan read_plan(const std::string& path);

/// The plan in the text of a plan.json; messages call it `file`.
partition::WrittenPlan parse_plan(const std::string& file, const std::string& text);

}  // namespace autopar::io
