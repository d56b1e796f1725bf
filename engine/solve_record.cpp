#include "engine/solve_record.h"

#include <algorithm>

namespace autopar::engine {

Solution better_of(Solution now, const Solution& before) {
  now.bound = std::max(now.bound, before.bound);
  if (!before.assignment.empty() && before.cost < now.cost) {
    now.assignment = before.assignment;
    now.cost = before.cost;
    now.status = Status::kLimitReached;
  }
  if (!now.assignment.empty() && now.cost <= now.bound) now.status = Status::kOptimal;
  return now;
}

}  // namespace autopar::engine
