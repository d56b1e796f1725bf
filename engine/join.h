#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/cost_network.h"
#include "engine/dual.h"

namespace autopar::engine {

/// Two variables that become one.
struct Join {
  std::int32_t u = -1;
  std::int32_t v = -1;
  std::vector<std::array<std::int32_t, 2>> values;  ///< of u and v, that an assignment may have; ascending
};

/// Joins that close cycles on which a dual's costs disagree: whatever two of three neighbouring variables choose, the
/// third cannot have the least cost with both, so the dual's bound misses what the three cost at least (Sontag et al.
/// 2008: Tightening LP relaxations for MAP using message passing; joined variables instead of triplets keep the network
/// one of pairs). The most costly cycles first, no variable in two joins, pairs of values dearer than `gap` above the
/// bound left out. Empty if all cycles together miss too little of the gap.
std::vector<Join> choose_joins(const Dual& dual, Cost gap);

/// Joins of two of a variable's three neighbours, for variables without usage: presolve can then eliminate these, which
/// puts what the four cost together into the bound. Those that make the fewest pairs first; no variable in two. Grows
/// tables, so it is for gaps too wide to be searched.
std::vector<Join> choose_joins_for_elimination(const Dual& dual, Cost gap);

/// `network` with joined variables as one: u has the pairs as its values, v has a single value without cost.
CostNetwork with_joins(CostNetwork network, const std::vector<Join>& joins);
/// From assignments of with_joins() to those of the network it was made of, and back: -1 where a pair is gone.
Assignment restore_joined(const std::vector<Join>& joins, const Assignment& joined);
Assignment reduce_joined(const std::vector<Join>& joins, const Assignment& original);

}  // namespace autopar::engine
