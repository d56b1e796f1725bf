#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/cli.h"
#include "launch/task.h"
#include "partition/least_memory.h"
#include "partition/shared_solver.h"
#include "partition/variant.h"

namespace autopar::launch {

/// What a user can do about a memory limit that no plan keeps. Each way out was searched for: there is a plan.
struct Advice {
  struct Limit {
    std::int64_t bytes = 0;
    std::int64_t step_ps = 0;  ///< of the plan that was found, not always the best
  };
  partition::LeastMemory least;
  std::int64_t too_low = 0;                ///< the highest limit that was proven to allow no plan
  std::optional<Limit> limit;              ///< one that will do
  std::optional<std::int64_t> times_size;  ///< the mesh's first dim so many times its size
  bool recompute = false;                  ///< to let the search choose what runs again, not the constraints
  /// Pins to leave out, as few as was found to be enough.
  std::vector<std::string> pins;
};

/// Looks for ways out. `points`: where the search looked at memory. Bounded in the number of networks that it solves,
/// and by the time limit of `solver`.
Advice find_advice(const Task& task, const Arguments& arguments, const TaskFiles& files,
                   const partition::PointIds& points, partition::SharedSolver& solver);

/// Files and patterns of all pins, each once.
std::vector<std::string> pin_sources(const partition::Pins& pins);

}  // namespace autopar::launch
