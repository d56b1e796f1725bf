#pragma once

#include <vector>

#include "engine/dual.h"

namespace autopar::engine {

/// As a dual takes them; prices that are too high become the highest.
Prices in_integers(const std::vector<double>& prices);

/// Raises a dual's bound by sweeps and by prices at all usage points at once; bisection, one point at a time, is for a
/// few. After every sweep each price changes with how much its point is overused if every variable takes its values by
/// their marginals.
///
/// First by factors (multiplicative weights; Plotkin, Shmoys, Tardos 1995: fractional packing): of thousands of points
/// a few bind, and their prices grow from next to nothing within some tens of sweeps where steps of a subgradient take
/// thousands. Then by steps of a subgradient towards the incumbent (Polyak 1969), which end nearer to the optimum; with
/// prices to start from only these, after some sweeps: before messages are near rest, steps lead away.
class PriceAscent {
 public:
  /// `prices`: where to start, per point; empty: small ones. `dual` must stay where it is.
  PriceAscent(Dual& dual, const std::vector<double>& prices);
  /// Starts at the dual's own prices; `by_factors`: as if they were far from the best.
  explicit PriceAscent(Dual& dual, bool by_factors = false);

  /// One sweep and one change of prices. `incumbent`: cost of the best assignment known, or an estimate above the
  /// bound.
  void step(Cost incumbent);
  /// Steps bring nothing any more.
  bool is_done() const { return is_done_; }

  Cost bound() const { return best_bound_; }
  const std::vector<double>& prices() const { return best_prices_; }
  /// The state that the bound is of. The dual itself may be anywhere.
  const Dual& best() const { return best_; }

 private:
  void note_bound();
  void measure_usage(double temperature);
  void change_by_factors();
  void change_by_subgradient(double missing);
  void set_prices();

  Dual& dual_;
  Dual best_;
  Cost best_bound_;
  std::vector<double> prices_;
  std::vector<double> best_prices_;
  std::vector<double> overuse_;  // per point, above the capacity
  double least_price_ = 0;
  bool by_factors_;
  int num_settling_ = 0;  // sweeps left before the first change of prices
  bool is_done_ = false;
  double pace_;
  int idle_ = 0;  // steps since the bound rose
};

}  // namespace autopar::engine
