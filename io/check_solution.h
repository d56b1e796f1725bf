#pragma once

#include <string>
#include <vector>

namespace autopar::io {

/// What a solution of a cost table comes to.
struct SolutionCheck {
  std::string facts;                ///< cost and peak usage, line by line; empty if it cannot be evaluated at all
  std::vector<std::string> faults;  ///< why it is no solution, or not what its file says; empty: it is one
};

/// Evaluates a solution straight from the texts of both files: with nothing of the engine, and in sums of 128 bits, so
/// that a fault of the search cannot hide behind the same fault here. `solution` is a solution.json or a bare list of
/// strategies, such as `[0, 1, 2]`. Throws InputError if one of the files is damaged.
SolutionCheck check_solution(const std::string& problem_file, const std::string& problem,
                             const std::string& solution_file, const std::string& solution);

}  // namespace autopar::io
