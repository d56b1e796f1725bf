#pragma once

#include <functional>

#include "engine/block.h"
#include "engine/core.h"
#include "engine/dual.h"

namespace autopar::engine {

/// Removes values that have no allowed partner left at some neighbour, to a fixed point (arc consistency, AC-3,
/// Mackworth 1977). Returns false if a variable has no value left.
bool propagate(const CostNetwork& network, LiveValues& live);

/// Sweeps a dual until they bring little: coarsely, and at the end exactly.
class Convergence {
 public:
  explicit Convergence(Dual& dual);

  /// Sweeps until is_done(), the bound exceeds `enough`, or `max_sweeps`, or `deadline`. Returns the number of sweeps.
  int run(Cost enough, int max_sweeps, const Deadline& deadline = {});
  /// The bound rose three times in a row by less than a thousandth of what was missing to `enough` (where that was
  /// near) and a ten-millionth of itself.
  bool is_done() const { return precision_ == Precision::kExact && idle_ >= kPatience; }

 private:
  static constexpr int kPatience = 3;

  Dual& dual_;
  Precision precision_;
  int idle_ = 0;
};

/// At once. Returns the number of sweeps.
int converge(Dual& dual, Cost enough, int max_sweeps, const Deadline& deadline = {});

/// Looks for prices that raise the bound, one usage point after the other: usage of the rounded assignment tells
/// whether a price is too low or too high, so bisection finds where it turns (the Lagrangian is concave in each price).
/// Calls `visit` with every rounded assignment (live values). Returns the number of sweeps and leaves `dual` at the
/// best prices found.
int search_prices(Dual& dual, Cost enough, const std::function<void(const std::vector<std::int32_t>&)>& visit);

/// An assignment between `frugal`, which fits, and the cheaper `costly`, which does not: connected groups of variables
/// where the two differ are independent of each other, so those that save most per usage switch as long as they fit.
std::vector<std::int32_t> combine(const Core& core, const std::vector<std::int32_t>& frugal,
                                  const std::vector<std::int32_t>& costly);

/// Usage of `rounded` at each usage point, above what Core already took off.
std::vector<std::int64_t> usage_of(const Core& core, const std::vector<std::int32_t>& rounded);

}  // namespace autopar::engine
