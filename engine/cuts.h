#pragma once

#include <cstdint>
#include <vector>

#include "engine/cost_network.h"
#include "engine/dual.h"

namespace autopar::engine {

/// A limit that follows from the usage limit at one point because values are chosen whole, not in fractions.
struct Cut {
  /// What a variable's values count.
  struct Term {
    std::int32_t variable = -1;
    std::vector<std::int64_t> weights;  ///< per value
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms;
  std::int64_t capacity = 0;  ///< no assignment within the usage limit counts more
  bool operator==(const Cut&) const = default;
};

/// Mixed-integer rounding cuts (Nemhauser, Wolsey 1990; on knapsacks with choices they include lifted covers) of the
/// points that have a price: with usage counted from some value of each variable,
///
///     Σ F(usage) <= F(capacity),   F(a) = ⌊a / d⌋ (d - r) + max(a mod d - r, 0),   r = capacity mod d.
///
/// F is superadditive and grows with a, so no assignment within the limit breaks it: where there is room for seven and
/// a half of some layers' activations, it allows seven. Of the points of highest prices those that are broken most by
/// the cheapest fractional choice that just fits (by the dual's reduced costs, as in the relaxation of a
/// multiple-choice knapsack: Sinha, Zoltners 1979), over divisors d that are usages of values at their turning price.
std::vector<Cut> choose_cuts(const Dual& dual);

/// The first time at which a network uses nothing.
std::int32_t end_of_times(const CostNetwork& network);

/// `network` with the limits of `cuts` as more time points, from end_of_times() on. `cuts`: of a core that has all its
/// values.
CostNetwork with_cuts(const CostNetwork& network, const std::vector<Cut>& cuts);

}  // namespace autopar::engine
