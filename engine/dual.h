#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/core.h"

namespace autopar::engine {

/// Lagrange multipliers of the usage points: cost per unit of usage, in 2^-kPriceShift. Never negative.
using Prices = std::vector<std::int64_t>;
inline constexpr int kPriceShift = 40;
inline double price_per_unit(std::int64_t price) {
  return static_cast<double>(price) / static_cast<double>(std::int64_t{1} << kPriceShift);
}

/// Of a sweep. A coarse one reads CoreEdge::coarse where there is one, so that its bound ends a little lower.
enum class Precision { kCoarse, kExact };

/// A reparametrisation of a core: the same function of assignments, with costs moved between tables so that a constant
/// lower bound appears. After every call all node and edge costs are >= 0, and bound() never exceeds the cost of an
/// assignment whose usage fits. Everything is integer, so the bound is certified.
///
/// The sweeps are sequential tree-reweighted message passing (TRW-S, Kolmogorov 2006) written as explicit moves of cost
/// (in the manner of MPLP++, Tourani et al. 2018): a variable spreads its cost over its edges to later variables, and
/// these pull from each edge all that its rows have in common. Usage is priced by Lagrange multipliers.
class Dual {
 public:
  explicit Dual(const Core& core);

  /// Takes over the messages and prices of a dual of another core of the same network, on the edges whose states it
  /// has: for a part of that core the bound starts near that one's. Requires: nothing was done to this dual yet.
  void warm_start(const Dual& other);
  /// Takes over the messages of a dual whose core was made of other edges of the same network: those of `edge_of[e]`
  /// for the edge e.
  void warm_start(const Dual& other, const std::vector<std::int32_t>& edge_of);
  /// Takes over the state of another dual of the same core.
  void restore(const Dual& other);

  /// Sweeps once forwards and once backwards over the variables. The bound does not fall.
  void sweep(Precision precision);
  /// Charges `cost` to every value of `variable` but `allowed` (ascending): of the part that has only those, bound() is
  /// a bound up to that cost.
  void charge_others(std::int32_t variable, const std::vector<std::int32_t>& allowed, Cost cost);
  /// Changes the prices, keeping the messages.
  void set_prices(const Prices& prices);
  const Prices& prices() const { return prices_; }

  /// Lower bound on the cost of every assignment within the limit.
  Cost bound() const;
  /// Upper bound on how much of bound()'s excess the prices may give back: Σ price · capacity.
  Cost price_of_capacity() const;

  /// Cost that sits on value `x` of `variable` (its usage priced); >= 0.
  Cost node_cost(std::int32_t variable, std::int32_t x) const { return theta_[offset(variable) + ixs(x)]; }
  /// Cost that sits on a pair of states of `edge`; >= 0.
  Cost edge_cost(std::int32_t edge, std::int32_t row, std::int32_t col) const;
  /// What was on value `x` of `variable` when the last sweep came by, with all that its neighbours had passed on: near
  /// its min-marginal in the relaxation, the least being 0.
  Cost marginal(std::int32_t variable, std::int32_t x) const { return marginals_[offset(variable) + ixs(x)]; }
  /// Price of the usage of value `x`.
  Cost usage_price(std::int32_t variable, std::int32_t x) const;
  /// Σ of what was taken out of `variable` into the constant so far.
  Cost taken(std::int32_t variable) const { return taken_[ixs(variable)]; }
  /// Cost moved from `edge` to the end at `variable`, per state.
  std::span<const Cost> message(std::int32_t edge, std::int32_t variable) const;

  /// Per variable and value: bound() would rise by at least this much if the value were chosen.
  std::vector<std::vector<Cost>> reduced_costs() const;

  /// Values chosen one variable after the other, each the cheapest given the earlier ones. Ties go to the first.
  std::vector<std::int32_t> round() const;

  const Core& core() const { return core_; }

 private:
  static std::size_t ixs(std::int32_t i) { return static_cast<std::size_t>(i); }
  std::size_t offset(std::int32_t variable) const { return offset_[ixs(variable)]; }
  /// By table and end: edges, each with what reduced_costs() gives for it. Copies of one layer have equal messages
  /// where they come from a ShortNetwork.
  using ReducedCosts = std::map<std::pair<const Table*, bool>, std::vector<std::pair<std::int32_t, std::vector<Cost>>>>;
  /// Per state of one end of `edge`, the least that a pair of it costs.
  const std::vector<Cost>& reduced_costs(std::int32_t edge, bool of_v, ReducedCosts& known) const;
  void take_minimum(std::int32_t variable);
  template <class SourceOf>
  void take_messages(const Dual& other, const SourceOf& source_of);
  void take_message(std::int32_t edge, const Dual& other, std::int32_t source);
  void take_prices(const Prices& prices);
  void visit(std::int32_t variable, bool forwards, Precision precision);
  /// Costs moved from `edge` to u, by row, or to v, by column.
  std::span<Cost> moved(std::int32_t edge, bool to_u);
  std::span<const Cost> moved(std::int32_t edge, bool to_u) const;
  void push(std::int32_t variable, std::int32_t edge, const std::vector<Cost>& amount);
  void pull(std::int32_t edge, std::int32_t into, Precision precision);

  const Core& core_;
  Prices prices_;
  std::vector<Wide> prices_before_;  // sums, so that a piece of usage is priced at once
  Cost constant_ = 0;
  std::vector<std::size_t> offset_;
  std::vector<Cost> theta_;
  std::vector<Cost> taken_;
  std::vector<Cost> marginals_;
  std::vector<std::size_t> moved_at_;    // per edge
  std::vector<Cost> moved_;              // per edge: to u, by row; then to v, by column
  std::vector<std::vector<Cost>> push_;  // scratch, one per outgoing edge
  std::vector<Cost> pulled_;             // scratch
  CoarseTable::Scratch coarse_;
};

}  // namespace autopar::engine
