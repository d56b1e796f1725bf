#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cost_network.h"

namespace autopar::engine {

/// The values that are still in question, per variable of a network, ascending.
using LiveValues = std::vector<std::vector<std::int32_t>>;

/// All values of all variables.
LiveValues all_values(const CostNetwork& network);

/// What one variable uses at the usage points, above what its least using value uses there.
struct VariableUsage {
  /// Points first <= p < last, at which each value uses one amount. Disjoint and ascending.
  struct Piece {
    std::int32_t first = 0;
    std::int32_t last = 0;
    bool operator==(const Piece&) const = default;
  };
  std::vector<Piece> pieces;
  std::vector<std::int64_t> amounts;  ///< values x pieces; in each piece the least is 0

  bool empty() const { return pieces.empty(); }
  /// Of value `x`, per piece.
  std::span<const std::int64_t> of(std::int32_t x) const {
    return std::span(amounts).subspan(static_cast<std::size_t>(x) * pieces.size(), pieces.size());
  }
  /// Adds `factor` times what value `x` uses to the amounts per point.
  void add(std::int32_t x, std::int64_t factor, std::vector<std::int64_t>& points) const;
  /// The least capacity in each piece.
  std::vector<std::int64_t> room(const std::vector<std::int64_t>& capacity) const;
  /// Whether value `x` alone fits into that.
  bool fits(std::int32_t x, const std::vector<std::int64_t>& room) const;
  bool operator==(const VariableUsage&) const = default;
};

/// A network's usage over time, reduced to what can break its limit.
struct UsagePoints {
  std::vector<std::int32_t> times;     ///< of each point, ascending
  std::vector<std::int64_t> capacity;  ///< what the limit leaves at each point; negative: nothing fits
  std::vector<VariableUsage> of;       ///< of each variable; values are positions in its live values
};

/// Only times at which the live values could pass the limit become points. Of these one goes if another implies it:
/// whatever is chosen, no less is used there. All pairs are compared if there are few points, else neighbours.
UsagePoints usage_points(const CostNetwork& network, const LiveValues& live);

/// Prices of points at the ascending times `from`, as prices of points at `to`: each goes to the nearest one, which
/// mostly implies it.
template <class Price>
std::vector<Price> carry_prices(const std::vector<std::int32_t>& from, const std::vector<Price>& prices,
                                const std::vector<std::int32_t>& to) {
  std::vector<Price> carried(to.size(), 0);
  for (std::size_t t = 0; t < prices.size() && !to.empty(); ++t) {
    auto nearest = std::ranges::lower_bound(to, from[t]);
    if (nearest == to.end() || (nearest != to.begin() && from[t] - *(nearest - 1) < *nearest - from[t])) --nearest;
    carried[static_cast<std::size_t>(nearest - to.begin())] += prices[t];
  }
  return carried;
}

}  // namespace autopar::engine
