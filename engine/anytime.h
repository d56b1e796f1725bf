#pragma once

#include <functional>

#include "engine/presolve.h"
#include "engine/solve.h"

namespace autopar::engine {

class Comm;

/// For networks that are too large or too tight to be searched to the end: cost tables of whole production models.
struct AnytimeOptions {
  Options search;
  PresolveSteps presolve;
  /// One after the other on rank 0 alone, in turns and up to a limit that count work, not time: the same result on
  /// every machine. A second of the time limit is kWorkPerSecond.
  bool is_deterministic = false;
  double spent_s = 0;  ///< of the time limit, before this
  /// What an earlier search found, to go on from; not looked at if the result is to be the same on every machine.
  Assignment known = {};
  Cost known_bound = 0;
};
inline constexpr double kWorkPerSecond = 8e8;  // table entries; about what one core does

/// Minimises the network's cost over all ranks of `comm` for as long as there is time, with a bound (collective: every
/// rank calls it; only rank 0's `network` is read).
///
/// Rank 0's first thread raises the bound (PriceAscent); all other threads of all ranks look for assignments
/// (NeighbourhoodSearch), guided by that bound's prices and reduced costs, and share the best. When the bound stops
/// rising, values that no better assignment can have are fixed, presolve makes a smaller network (Stage), and it starts
/// again there; once nothing more can be fixed, solve() is tried on what is left.
Solution solve_anytime(const CostNetwork& network, const AnytimeOptions& options, Comm& comm,
                       const std::function<void(const Progress&)>& progress = {});

}  // namespace autopar::engine
