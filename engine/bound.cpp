#include "engine/bound.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/index.h"

namespace autopar::engine {
namespace {

/// Sweeps after a small change of the prices, and how often the price interval is halved.
constexpr int kSweepsPerPrice = 6;
constexpr int kHalvings = 14;

bool has_forbidden(const Table& table) {
  return std::any_of(table.costs.begin(), table.costs.end(), [](Cost cost) { return cost >= kForbidden; });
}

/// Keeps the values of `self` that have an allowed partner across `edge`. Returns whether any went.
bool revise(const CostNetwork& network, const Edge& edge, bool self_is_u, LiveValues& live) {
  const Table& table = network.tables[ix(edge.table)];
  const Projection& own = network.projections[ix(self_is_u ? edge.project_u : edge.project_v)];
  const Projection& other = network.projections[ix(self_is_u ? edge.project_v : edge.project_u)];
  std::vector<std::int32_t>& values = live[ix(self_is_u ? edge.u : edge.v)];
  const std::vector<std::int32_t>& partners = live[ix(self_is_u ? edge.v : edge.u)];
  const std::size_t before = values.size();
  std::erase_if(values, [&](std::int32_t x) {
    return std::none_of(partners.begin(), partners.end(), [&](std::int32_t y) {
      return (self_is_u ? table.at(own[ix(x)], other[ix(y)]) : table.at(other[ix(y)], own[ix(x)])) < kForbidden;
    });
  });
  return values.size() < before;
}

/// One price of a dual, found by bisection.
class PriceSearch {
 public:
  PriceSearch(Dual& dual, Cost enough, const std::function<void(const std::vector<std::int32_t>&)>& visit)
      : dual_(dual), enough_(enough), visit_(visit), best_(dual) {}

  void run(std::size_t point) {
    // A price that was good for a larger problem is near the right one for a part of it.
    const std::int64_t known = dual_.prices()[point];
    const std::int64_t start = known > 0 ? known : first_price(point);
    if (start == 0 || fits(point, 0)) return;
    std::int64_t low = start;
    std::int64_t high = start;
    const std::int64_t factor = known > 0 ? 2 : 4;
    if (fits(point, start)) {
      do {
        high = low;
        low /= factor;
      } while (low > 0 && known > 0 && fits(point, low));
      if (known == 0) low = 0;
    } else {
      do {
        low = high;
        high *= factor;
      } while (!fits(point, high) && high < kMaxPrice);
    }
    for (int i = 0; i < (known > 0 ? kHalvings / 2 : kHalvings) && high - low > 1 && dual_.bound() <= enough_; ++i) {
      const std::int64_t middle = low + (high - low) / 2;
      (fits(point, middle) ? high : low) = middle;
    }
    if (!frugal_.empty() && !costly_.empty()) visit_(combine(dual_.core(), frugal_, costly_));
    dual_.restore(best_);
  }

  int sweeps() const { return sweeps_; }

 private:
  static constexpr std::int64_t kMaxPrice = std::int64_t{1} << 58;

  /// A price at which the point's usage weighs as much as a hundredth of the bound.
  std::int64_t first_price(std::size_t point) const {
    std::int64_t most = 0;
    for (const CoreVariable& variable : dual_.core().variables()) {
      const std::vector<VariableUsage::Piece>& pieces = variable.usage.pieces;
      const auto here = std::ranges::find_if(pieces, [point](const VariableUsage::Piece& piece) {
        return std::cmp_less_equal(piece.first, point) && std::cmp_less(point, piece.last);
      });
      if (here == pieces.end()) continue;
      std::int64_t most_of_this = 0;
      for (std::size_t x = 0; x < variable.costs.size(); ++x) {
        const auto amounts = variable.usage.of(static_cast<std::int32_t>(x));
        most_of_this = std::max(most_of_this, amounts[ix(here - pieces.begin())]);
      }
      most += most_of_this;
    }
    if (most == 0) return 0;
    const double scale = static_cast<double>(std::max<Cost>(dual_.bound(), 100)) / 100.0;
    const double price = scale / static_cast<double>(most) * static_cast<double>(std::int64_t{1} << kPriceShift);
    return static_cast<std::int64_t>(std::clamp(price, 1.0, static_cast<double>(kMaxPrice)));
  }

  /// Moves to `price` and tells whether the rounded assignment fits at `point`.
  bool fits(std::size_t point, std::int64_t price) {
    Prices prices = dual_.prices();
    if (prices[point] != price) {
      prices[point] = price;
      dual_.set_prices(prices);
    }
    sweeps_ += converge(dual_, enough_, kSweepsPerPrice);
    if (dual_.bound() > best_.bound()) best_.restore(dual_);
    std::vector<std::int32_t> rounded = dual_.round();
    visit_(rounded);
    const bool fitting = usage_of(dual_.core(), rounded)[point] <= dual_.core().capacity()[point];
    (fitting ? frugal_ : costly_) = std::move(rounded);
    return fitting;
  }

  Dual& dual_;
  Cost enough_;
  const std::function<void(const std::vector<std::int32_t>&)>& visit_;
  Dual best_;
  std::vector<std::int32_t> frugal_;  // the last rounding that fitted, and the last that did not
  std::vector<std::int32_t> costly_;
  int sweeps_ = 0;
};

}  // namespace

bool propagate(const CostNetwork& network, LiveValues& live) {
  std::map<std::int32_t, bool> can_forbid;
  for (const Edge& edge : network.edges) {
    const auto [entry, is_new] = can_forbid.try_emplace(edge.table);
    if (is_new) entry->second = has_forbidden(network.tables[ix(edge.table)]);
  }
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    const std::vector<Cost>& costs = network.domain(v).costs;
    std::erase_if(live[ix(v)], [&](std::int32_t x) { return costs[ix(x)] >= kForbidden; });
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const Edge& edge : network.edges) {
      if (!can_forbid[edge.table]) continue;
      changed |= revise(network, edge, true, live);
      changed |= revise(network, edge, false, live);
    }
  }
  return std::none_of(live.begin(), live.end(), [](const auto& values) { return values.empty(); });
}

Convergence::Convergence(Dual& dual)
    : dual_(dual), precision_(dual.core().is_coarse() ? Precision::kCoarse : Precision::kExact) {}

int Convergence::run(Cost enough, int max_sweeps, const Deadline& deadline) {
  for (int sweep = 0; sweep < max_sweeps; ++sweep) {
    if (is_done()) return sweep;
    const Cost before = dual_.bound();
    dual_.sweep(precision_);
    const Cost gain = dual_.bound() - before;
    const Cost little = std::min(std::abs(dual_.bound()) / 10'000'000, (enough - dual_.bound()) / 1000);
    idle_ = gain < little || gain == 0 ? idle_ + 1 : 0;
    if (dual_.bound() > enough || deadline.passed()) return sweep + 1;
    if (idle_ == kPatience && precision_ == Precision::kCoarse) {
      precision_ = Precision::kExact;
      idle_ = 0;
    }
  }
  return max_sweeps;
}

int converge(Dual& dual, Cost enough, int max_sweeps, const Deadline& deadline) {
  return Convergence(dual).run(enough, max_sweeps, deadline);
}

std::vector<std::int64_t> usage_of(const Core& core, const std::vector<std::int32_t>& rounded) {
  std::vector<std::int64_t> usage(core.capacity().size(), 0);
  for (std::size_t v = 0; v < rounded.size(); ++v) core.variables()[v].usage.add(rounded[v], 1, usage);
  return usage;
}

namespace {

/// What changes if one group of variables takes its values from another assignment.
struct Switch {
  std::vector<std::int32_t> variables;
  Cost saves = 0;
  std::vector<std::int64_t> uses;  // more, per usage point
  std::int64_t most_use = 0;
};

Cost pair_cost(const CoreEdge& edge, const std::vector<std::int32_t>& values) {
  return edge.cost(values[ix(edge.u.variable)], values[ix(edge.v.variable)]);
}

Switch make_switch(const Core& core, std::vector<std::int32_t> group, const std::vector<std::int32_t>& frugal,
                   const std::vector<std::int32_t>& costly) {
  Switch made{std::move(group), 0, std::vector<std::int64_t>(core.capacity().size(), 0), 0};
  std::vector<std::int32_t> edges;
  for (std::int32_t v : made.variables) {
    const CoreVariable& variable = core.variables()[ix(v)];
    made.saves += variable.costs[ix(frugal[ix(v)])] - variable.costs[ix(costly[ix(v)])];
    edges.insert(edges.end(), variable.edges.begin(), variable.edges.end());
    variable.usage.add(costly[ix(v)], 1, made.uses);
    variable.usage.add(frugal[ix(v)], -1, made.uses);
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  for (std::int32_t e : edges) {
    made.saves += pair_cost(core.edges()[ix(e)], frugal) - pair_cost(core.edges()[ix(e)], costly);
  }
  for (std::int64_t use : made.uses) made.most_use = std::max(made.most_use, use);
  return made;
}

std::vector<Switch> find_switches(const Core& core, const std::vector<std::int32_t>& frugal,
                                  const std::vector<std::int32_t>& costly) {
  std::vector<Switch> switches;
  std::vector<char> seen(frugal.size(), 0);
  for (std::size_t v = 0; v < frugal.size(); ++v) {
    if (seen[v] || frugal[v] == costly[v]) continue;
    std::vector<std::int32_t> group;
    std::vector<std::int32_t> open{static_cast<std::int32_t>(v)};
    seen[v] = 1;
    while (!open.empty()) {
      const std::int32_t here = open.back();
      open.pop_back();
      group.push_back(here);
      for (std::int32_t edge : core.variables()[ix(here)].edges) {
        const std::int32_t there = core.other_end(edge, here).variable;
        if (seen[ix(there)] || frugal[ix(there)] == costly[ix(there)]) continue;
        seen[ix(there)] = 1;
        open.push_back(there);
      }
    }
    switches.push_back(make_switch(core, std::move(group), frugal, costly));
  }
  return switches;
}

}  // namespace

std::vector<std::int32_t> combine(const Core& core, const std::vector<std::int32_t>& frugal,
                                  const std::vector<std::int32_t>& costly) {
  std::vector<Switch> switches = find_switches(core, frugal, costly);
  // Savings per usage in descending order: a / b > c / d as a * d > c * b, in 128 bits.
  std::stable_sort(switches.begin(), switches.end(), [](const Switch& a, const Switch& b) {
    return Wide{a.saves} * std::max<std::int64_t>(b.most_use, 1) >
           Wide{b.saves} * std::max<std::int64_t>(a.most_use, 1);
  });
  std::vector<std::int32_t> values = frugal;
  std::vector<std::int64_t> used = usage_of(core, frugal);
  for (const Switch& group : switches) {
    bool fits = group.saves > 0;
    for (std::size_t t = 0; t < used.size(); ++t) fits = fits && used[t] + group.uses[t] <= core.capacity()[t];
    if (!fits) continue;
    for (std::size_t t = 0; t < used.size(); ++t) used[t] += group.uses[t];
    for (std::int32_t v : group.variables) values[ix(v)] = costly[ix(v)];
  }
  return values;
}

int search_prices(Dual& dual, Cost enough, const std::function<void(const std::vector<std::int32_t>&)>& visit) {
  // A second pass corrects the first price for what the later ones changed.
  const std::size_t points = dual.core().capacity().size();
  PriceSearch search(dual, enough, visit);
  for (int pass = 0; pass < (points > 1 ? 2 : 1); ++pass) {
    for (std::size_t point = 0; point < points; ++point) search.run(point);
  }
  return search.sweeps();
}

}  // namespace autopar::engine
