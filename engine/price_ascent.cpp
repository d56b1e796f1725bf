#include "engine/price_ascent.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/index.h"

namespace autopar::engine {
namespace {

constexpr double kScale = static_cast<double>(std::int64_t{1} << kPriceShift);
constexpr double kMostPrice = static_cast<double>(std::numeric_limits<std::int64_t>::max()) / 4 / kScale;
constexpr double kFirstPace = 0.3;        // exponent per relative overuse
constexpr double kSlowdown = 0.6;         // of the pace, when the bound stops rising
constexpr double kSlowestFactors = 2e-3;  // then steps of a subgradient take over
constexpr double kFirstStep = 0.5;        // of Polyak's
constexpr double kSlowestStep = 1e-4;
constexpr double kMissing = 0.01;  // of the bound, at first
constexpr double kLeastMissing = 1e-5;
constexpr int kPatience = 60;         // steps without a rise before the pace falls
constexpr int kSettling = 60;         // sweeps from no messages at all, before prices that are given change
constexpr double kRise = 1e-6;        // of the bound, that counts as one
constexpr double kFirstShare = 1e-3;  // of what is missing, that all prices together are worth at first
constexpr double kLeastShare = 1e-9;  // a price never falls below, or it could not come back

std::vector<double> in_double(const Prices& prices) {
  std::vector<double> converted;
  bool any = false;
  for (std::int64_t price : prices) {
    converted.push_back(price_per_unit(price));
    any |= price > 0;
  }
  if (!any) converted.clear();
  return converted;
}

}  // namespace

Prices in_integers(const std::vector<double>& prices) {
  Prices converted;
  for (double price : prices) converted.push_back(static_cast<std::int64_t>(std::min(price, kMostPrice) * kScale));
  return converted;
}

PriceAscent::PriceAscent(Dual& dual, bool by_factors) : PriceAscent(dual, in_double(dual.prices())) {
  num_settling_ = 0;  // it has messages
  if (!by_factors) return;
  by_factors_ = true;
  pace_ = kFirstPace;
}

PriceAscent::PriceAscent(Dual& dual, const std::vector<double>& prices)
    : dual_(dual),
      best_(dual),
      best_bound_(dual.bound()),
      prices_(prices),
      by_factors_(prices.empty()),
      num_settling_(prices.empty() ? 0 : kSettling),
      pace_(prices.empty() ? kFirstPace : kFirstStep) {
  const std::vector<std::int64_t>& capacity = dual.core().capacity();
  double total = 0;
  for (std::int64_t room : capacity) total += static_cast<double>(room);
  const double worth = std::max(static_cast<double>(std::abs(dual.bound())), 1.0) / std::max(total, 1.0);
  least_price_ = kLeastShare * worth;
  if (prices_.empty()) prices_.assign(capacity.size(), kFirstShare * worth);
  for (double& price : prices_) price = std::max(price, least_price_);
  overuse_.resize(capacity.size());
  best_prices_ = prices_;
  if (!capacity.empty()) set_prices();
}

void PriceAscent::step(Cost incumbent) {
  dual_.sweep(Precision::kCoarse);
  note_bound();
  if (is_done_ || prices_.empty()) return;
  if (num_settling_ > 0) {
    --num_settling_;
    return;
  }
  // The incumbent may be far from the optimum: what is missing is taken to shrink with the pace.
  const double scale = static_cast<double>(std::abs(best_bound_)) + 1;
  const double most = kMissing * scale * pace_ / (by_factors_ ? kFirstPace : kFirstStep);
  const double missing = std::clamp(static_cast<double>(incumbent - dual_.bound()), kLeastMissing * scale,
                                    std::max(most, kLeastMissing * scale));
  measure_usage(std::max(missing / static_cast<double>(dual_.core().variables().size()), 1.0));
  if (by_factors_) {
    change_by_factors();
  } else {
    change_by_subgradient(missing);
  }
  set_prices();
}

void PriceAscent::note_bound() {
  const Cost bound = dual_.bound();
  ++idle_;
  if (bound > best_bound_) {
    const double rise = static_cast<double>(bound - best_bound_);
    if (rise > kRise * static_cast<double>(std::abs(best_bound_))) idle_ = 0;
    best_bound_ = bound;
    best_prices_ = prices_;
    best_.restore(dual_);
  }
  if (idle_ < kPatience) return;
  idle_ = 0;
  pace_ *= kSlowdown;
  if (prices_.empty() || (!by_factors_ && pace_ < kSlowestStep)) is_done_ = true;
  if (by_factors_ && pace_ < kSlowestFactors) {
    by_factors_ = false;
    pace_ = kFirstStep;
  }
  prices_ = best_prices_;
  dual_.restore(best_);
}

/// Usage if every variable takes each value with a weight that falls with its marginal.
void PriceAscent::measure_usage(double temperature) {
  const Core& core = dual_.core();
  std::vector<double> change(prices_.size() + 1, 0);
  std::vector<double> weights;
  for (std::size_t v = 0; v < core.variables().size(); ++v) {
    const VariableUsage& usage = core.variables()[v].usage;
    if (usage.empty()) continue;
    weights.clear();
    double total = 0;
    for (std::size_t x = 0; x < core.variables()[v].costs.size(); ++x) {
      const Cost marginal = dual_.marginal(static_cast<std::int32_t>(v), static_cast<std::int32_t>(x));
      weights.push_back(std::exp(-static_cast<double>(marginal) / temperature));
      total += weights.back();
    }
    for (std::size_t p = 0; p < usage.pieces.size(); ++p) {
      double amount = 0;
      for (std::size_t x = 0; x < weights.size(); ++x) {
        amount += weights[x] * static_cast<double>(usage.amounts[x * usage.pieces.size() + p]);
      }
      change[ix(usage.pieces[p].first)] += amount / total;
      change[ix(usage.pieces[p].last)] -= amount / total;
    }
  }
  double used = 0;
  for (std::size_t t = 0; t < prices_.size(); ++t) {
    used += change[t];
    overuse_[t] = used - static_cast<double>(core.capacity()[t]);
  }
}

void PriceAscent::change_by_factors() {
  for (std::size_t t = 0; t < prices_.size(); ++t) {
    const double room = static_cast<double>(dual_.core().capacity()[t]) + 1;
    prices_[t] = std::max(prices_[t] * std::exp(pace_ * std::clamp(overuse_[t] / room, -1.0, 2.0)), least_price_);
  }
}

void PriceAscent::change_by_subgradient(double missing) {
  double norm = 0;
  for (std::size_t t = 0; t < prices_.size(); ++t) {
    if (prices_[t] <= 0 && overuse_[t] < 0) overuse_[t] = 0;
    norm += overuse_[t] * overuse_[t];
  }
  if (norm <= 0) return;
  for (std::size_t t = 0; t < prices_.size(); ++t) {
    prices_[t] = std::max(prices_[t] + pace_ * missing / norm * overuse_[t], 0.0);
  }
}

void PriceAscent::set_prices() { dual_.set_prices(in_integers(prices_)); }

}  // namespace autopar::engine
