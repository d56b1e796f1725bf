#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/solve.h"
#include "io/write_plan.h"

namespace autopar::io {

/// What the search knew from a moment on.
struct TimelinePoint {
  double seconds = 0;
  engine::Cost cost = engine::kForbidden;  ///< of the best solution; kForbidden: there was none
  engine::Cost bound = 0;
};

/// Where a solution comes from.
struct SolutionSource {
  std::string producer;      ///< "autopar-search 0.1.0"
  std::string problem_name;  ///< as the problem file has it
  std::string problem_hash;  ///< content_hash of the problem file
};

/// "[0, 1, 2]": as contest programs print it.
std::string choices_text(const engine::Assignment& choices);

/// The text of solution.json (docs/cost-tables.md). Without `run` there are no times in it, so that it is the same for
/// equal input, however the solution was found. Requires: there is a solution.
std::string format_solution(const engine::Solution& solution, const SolutionSource& source,
                            const std::vector<TimelinePoint>& timeline, const std::optional<RunInfo>& run);

}  // namespace autopar::io
