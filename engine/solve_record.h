#pragma once

#include <vector>

#include "engine/solve.h"

namespace autopar::engine {

/// The networks that one search solved, in their order. What a search asks next follows from the answers it got, so
/// with these it can be repeated without solving anything.
struct SolveRecord {
  struct Entry {
    Solution solution;
    bool was_late = false;       ///< the time was over before it began
    bool was_cut_short = false;  ///< the time was over at its end, before the solution was proven
  };
  std::vector<Entry> entries;
  bool ended_late = false;  ///< the time was over at the end
};

/// Of two answers to one question, of which the time cut `now` short, what both know together.
Solution better_of(Solution now, const Solution& before);

}  // namespace autopar::engine
