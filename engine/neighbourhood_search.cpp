#include "engine/neighbourhood_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "engine/bound.h"
#include "engine/dense_elimination.h"
#include "engine/index.h"

namespace autopar::engine {
namespace {

constexpr std::size_t kSizes[] = {8, 16, 32, 64, 128, 256, 512, 1024, 4096};
constexpr double kForgetting = 0.9;      // of a way's rate, per try
constexpr double kCuriosity = 0.15;      // share of tries that do not go by rates
constexpr int kPriceSteps = 8;           // tries to make a block just fit
constexpr std::size_t kMostValues = 24;  // fewer than DenseElimination can have
constexpr double kFactorStep = 1.3;
constexpr double kFactorAccuracy = 0.02;
constexpr double kLeastFactor = 0.2;
constexpr double kRaise = 0.1;
constexpr double kKick = 0.02;  // of the guide's gap: the most that a kick changes a cost
constexpr std::size_t kKickTable = 1 << 12;
constexpr std::size_t kWorkOfStep = 1000;  // of choosing a block, which may turn out to be empty

/// The factor on prices at which a block just fits, between one that is too low and one that is high enough.
struct PriceRange {
  double factor = 1;
  double too_low = 0;      // 0: none known
  double high_enough = 0;  // 0: none known

  /// Returns false if it is known well enough.
  bool move(bool has_excess) {
    (has_excess ? too_low : high_enough) = factor;
    if (too_low > 0 && high_enough > 0) {
      factor = (too_low + high_enough) / 2;
      return high_enough - too_low > kFactorAccuracy * high_enough;
    }
    factor = has_excess ? factor * kFactorStep : factor / kFactorStep;
    return factor > kLeastFactor;
  }
};

}  // namespace

struct NeighbourhoodSearch::Block {
  std::vector<std::int32_t> variables;
  std::vector<std::vector<std::int32_t>> candidates;  // values, ascending
  std::vector<std::vector<Cost>> costs;               // of candidates, given the values outside
  std::vector<std::int32_t> edges;                    // all around
  std::unique_ptr<DenseElimination> elimination;
};

NeighbourhoodSearch::NeighbourhoodSearch(const Core& core, std::uint32_t seed)
    : core_(core), random_(seed), bumps_(core.capacity().size(), 0), in_block_(core.variables().size(), 0) {
  for (std::size_t size : kSizes) {
    if (!ways_.empty() && size > 2 * core.variables().size()) break;
    ways_.push_back({size, false, 0});
    if (!core.capacity().empty()) ways_.push_back({size, true, 0});
  }
  for (std::size_t v = 0; v < core.variables().size(); ++v) {
    if (!core.variables()[v].usage.empty()) users_.push_back(static_cast<std::int32_t>(v));
  }
}

void NeighbourhoodSearch::start(const std::vector<std::int32_t>& values) {
  values_ = values;
  usage_ = usage_of(core_, values);
  excess_ = excess_now();
  cost_ = whole_cost();
  std::ranges::fill(bumps_, 0);
}

Cost NeighbourhoodSearch::whole_cost() const {
  Wide cost = core_.constant();
  for (std::size_t v = 0; v < values_.size(); ++v) cost += core_.variables()[v].costs[ix(values_[v])];
  for (const CoreEdge& edge : core_.edges()) {
    cost += edge.cost(values_[ix(edge.u.variable)], values_[ix(edge.v.variable)]);
  }
  return cost >= kForbidden ? kForbidden : static_cast<Cost>(cost);
}

std::int64_t NeighbourhoodSearch::excess_now() const {
  std::int64_t excess = 0;
  for (std::size_t t = 0; t < usage_.size(); ++t) excess += std::max<std::int64_t>(usage_[t] - core_.capacity()[t], 0);
  return excess;
}

void NeighbourhoodSearch::step(const Deadline& deadline) {
  const std::size_t w = choose_way();
  Way& way = ways_[w];
  const double share = std::pow(10.0, -3 * uniform());
  const auto max_table = static_cast<std::size_t>(std::pow(2.0, 10 + 9 * uniform()));
  Block block = make_block(grow(way), share, max_table);
  const std::size_t work_before = work_;
  const Cost cost_before = cost_;
  const std::int64_t excess_before = excess_;
  work_ += kWorkOfStep;
  if (!block.variables.empty()) try_block(block, deadline);
  const auto effort = static_cast<double>(work_ - work_before);
  double gain = static_cast<double>(cost_before - cost_);
  if (excess_before > 0) gain = static_cast<double>(excess_before - excess_);
  way.rate = kForgetting * way.rate + (1 - kForgetting) * std::max(gain, 0.0) / effort;
}

std::size_t NeighbourhoodSearch::choose_way() {
  double total = 0;
  for (const Way& way : ways_) total += way.rate;
  if (total <= 0 || uniform() < kCuriosity) return static_cast<std::size_t>(random_()) % ways_.size();
  double left = uniform() * total;
  for (std::size_t w = 0; w < ways_.size(); ++w) {
    left -= ways_[w].rate;
    if (left <= 0) return w;
  }
  return ways_.size() - 1;
}

void NeighbourhoodSearch::add_neighbours(std::int32_t variable, std::vector<std::int32_t>& frontier) {
  for (std::int32_t e : core_.variables()[ix(variable)].edges) {
    const std::int32_t other = core_.other_end(e, variable).variable;
    if (in_block_[ix(other)]) continue;
    in_block_[ix(other)] = 1;
    frontier.push_back(other);
  }
}

/// Variables around a random one, in random order of growth; `by_time`: around several that are live at one point.
std::vector<std::int32_t> NeighbourhoodSearch::grow(const Way& way) {
  std::vector<std::int32_t> seeds;
  const auto draw = [this](std::size_t count) { return static_cast<std::size_t>(random_()) % count; };
  if (way.by_time && !users_.empty()) {
    const auto point = static_cast<std::int32_t>(draw(core_.capacity().size()));
    for (std::int32_t v : users_) {
      const auto& pieces = core_.variables()[ix(v)].usage.pieces;
      const auto covers = [point](const auto& piece) { return piece.first <= point && point < piece.last; };
      if (std::ranges::any_of(pieces, covers)) seeds.push_back(v);
    }
    std::ranges::shuffle(seeds, random_);
    seeds.resize(std::min(seeds.size(), way.size / 4 + 1));
  }
  if (seeds.empty()) seeds.push_back(static_cast<std::int32_t>(draw(core_.variables().size())));
  std::vector<std::int32_t> frontier = seeds;
  for (std::int32_t v : seeds) in_block_[ix(v)] = 1;
  std::vector<std::int32_t> block;
  const bool breadth_first = draw(2) == 0;
  for (std::size_t next = 0; next < frontier.size() && block.size() < way.size; ++next) {
    if (!breadth_first) std::swap(frontier[next], frontier[next + draw(frontier.size() - next)]);
    block.push_back(frontier[next]);
    add_neighbours(frontier[next], frontier);
  }
  for (std::int32_t v : frontier) in_block_[ix(v)] = 0;
  std::erase_if(block, [this](std::int32_t v) { return core_.variables()[ix(v)].costs.size() < 2; });
  std::ranges::sort(block);
  return block;
}

std::vector<std::int32_t> NeighbourhoodSearch::candidates(std::int32_t variable, double share) const {
  const std::vector<Cost>& reduced = guide_->reduced_costs[ix(variable)];
  const Cost limit = static_cast<Cost>(static_cast<double>(guide_->gap) * share);
  std::vector<std::int32_t> found;
  for (std::size_t x = 0; x < reduced.size(); ++x) {
    if (reduced[x] <= limit || std::cmp_equal(x, values_[ix(variable)])) found.push_back(static_cast<std::int32_t>(x));
  }
  if (found.size() > kMostValues) {
    const auto key = [&](std::int32_t x) { return x == values_[ix(variable)] ? -1 : reduced[ix(x)]; };
    std::ranges::nth_element(found, found.begin() + kMostValues, {}, key);
    found.resize(kMostValues);
    std::ranges::sort(found);
  }
  return found;
}

NeighbourhoodSearch::Block NeighbourhoodSearch::make_block(const std::vector<std::int32_t>& variables, double share,
                                                           std::size_t max_table) {
  Block block;
  block.variables = variables;
  std::vector<std::int32_t> sizes;
  std::vector<std::int32_t> current;
  for (std::int32_t v : variables) {
    block.candidates.push_back(candidates(v, share));
    sizes.push_back(static_cast<std::int32_t>(block.candidates.back().size()));
    const auto at = std::ranges::find(block.candidates.back(), values_[ix(v)]) - block.candidates.back().begin();
    current.push_back(static_cast<std::int32_t>(at));
    in_block_[ix(v)] = 1;
  }
  const auto position = [&](std::int32_t v) { return std::ranges::lower_bound(variables, v) - variables.begin(); };
  std::vector<DenseElimination::Pair> pairs;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const std::int32_t v = variables[i];
    const CoreVariable& variable = core_.variables()[ix(v)];
    std::vector<Cost>& costs = block.costs.emplace_back();
    for (std::int32_t x : block.candidates[i]) costs.push_back(variable.costs[ix(x)]);
    for (std::int32_t e : variable.edges) {
      const CoreEdge& edge = core_.edges()[ix(e)];
      const std::int32_t other = core_.other_end(e, v).variable;
      const bool is_u = edge.u.variable == v;
      if (!in_block_[ix(other)]) {
        block.edges.push_back(e);
        for (std::size_t k = 0; k < costs.size(); ++k) {
          const std::int32_t x = block.candidates[i][k];
          const std::int32_t y = values_[ix(other)];
          costs[k] = add(costs[k], is_u ? edge.cost(x, y) : edge.cost(y, x));
        }
        continue;
      }
      if (!is_u) continue;
      block.edges.push_back(e);
      const auto j = ix(position(other));
      std::vector<Cost> table;
      table.reserve(block.candidates[i].size() * block.candidates[j].size());
      for (std::int32_t x : block.candidates[i]) {
        for (std::int32_t y : block.candidates[j]) table.push_back(edge.cost(x, y));
      }
      pairs.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(j), std::move(table)});
    }
  }
  for (std::int32_t v : variables) in_block_[ix(v)] = 0;
  block.elimination =
      std::make_unique<DenseElimination>(std::move(sizes), std::move(current), std::move(pairs), max_table);
  return block;
}

std::vector<std::vector<Cost>> NeighbourhoodSearch::priced(const Block& block,
                                                           const std::vector<double>& prices) const {
  std::vector<double> before(prices.size() + 1, 0);
  for (std::size_t t = 0; t < prices.size(); ++t) before[t + 1] = before[t] + prices[t];
  std::vector<std::vector<Cost>> costs = block.costs;
  for (std::size_t i = 0; i < block.variables.size(); ++i) {
    const VariableUsage& usage = core_.variables()[ix(block.variables[i])].usage;
    if (usage.empty()) continue;
    for (std::size_t k = 0; k < costs[i].size(); ++k) {
      const auto amounts = usage.of(block.candidates[i][k]);
      double price = 0;
      for (std::size_t p = 0; p < amounts.size(); ++p) {
        price +=
            static_cast<double>(amounts[p]) * (before[ix(usage.pieces[p].last)] - before[ix(usage.pieces[p].first)]);
      }
      costs[i][k] = add(costs[i][k], static_cast<Cost>(std::min(price, 1e17)));
    }
  }
  return costs;
}

Cost NeighbourhoodSearch::cost_of_block(const Block& block) const {
  Cost cost = 0;
  for (std::int32_t v : block.variables) cost = add(cost, core_.variables()[ix(v)].costs[ix(values_[ix(v)])]);
  for (std::int32_t e : block.edges) {
    const CoreEdge& edge = core_.edges()[ix(e)];
    cost = add(cost, edge.cost(values_[ix(edge.u.variable)], values_[ix(edge.v.variable)]));
  }
  return cost;
}

/// Makes the block's candidates `to` its values.
void NeighbourhoodSearch::set_values(const Block& block, const std::vector<std::int32_t>& to) {
  for (std::size_t i = 0; i < block.variables.size(); ++i) {
    const auto v = ix(block.variables[i]);
    const std::int32_t value = block.candidates[i][ix(to[i])];
    if (value == values_[v]) continue;
    const VariableUsage& usage = core_.variables()[v].usage;
    if (!usage.empty()) {
      usage.add(values_[v], -1, usage_);
      usage.add(value, 1, usage_);
    }
    values_[v] = value;
  }
}

/// Finds the block's best values at prices that change until the whole just fits: a factor on the guide's, by
/// bisection, and additions where the limit is passed.
void NeighbourhoodSearch::try_block(Block& block, const Deadline& deadline) {
  std::vector<std::int32_t> best = current_of(block, values_);
  const Cost before = cost_of_block(block);
  const std::int64_t excess_before = excess_;
  Cost best_cost = before;
  PriceRange range;
  std::vector<double> added = bumps_;
  for (int step = 0; step < kPriceSteps && !deadline.passed(); ++step) {
    std::vector<double> prices(added.size());
    for (std::size_t t = 0; t < prices.size(); ++t) prices[t] = range.factor * guide_->prices[t] + added[t];
    const std::vector<std::int32_t> found = block.elimination->solve(priced(block, prices));
    work_ += block.elimination->work();
    set_values(block, found);
    const std::int64_t excess = excess_now();
    const Cost cost = cost_of_block(block);
    if (excess < excess_ || (excess == excess_ && cost <= best_cost)) {
      best = found;
      excess_ = excess;
      best_cost = cost;
    }
    if (usage_.empty()) break;
    if (excess > 0) raise(added, typical_price() * std::pow(4.0, step));
    if (!range.move(excess > 0)) break;
  }
  set_values(block, best);
  cost_ = before < kForbidden && cost_ < kForbidden ? cost_ + best_cost - before : whole_cost();
  if (excess_ == 0) {
    std::ranges::fill(bumps_, 0);
  } else if (excess_ == excess_before) {
    raise(bumps_, typical_price());
  }
}

/// Positions of the block's values in its candidates.
std::vector<std::int32_t> NeighbourhoodSearch::current_of(const Block& block, const std::vector<std::int32_t>& values) {
  std::vector<std::int32_t> current;
  for (std::size_t i = 0; i < block.variables.size(); ++i) {
    const auto at = std::ranges::find(block.candidates[i], values[ix(block.variables[i])]);
    current.push_back(static_cast<std::int32_t>(at - block.candidates[i].begin()));
  }
  return current;
}

void NeighbourhoodSearch::kick() {
  if (cost_ >= kForbidden) return;
  const Way way{kSizes[random_() % 4], !users_.empty() && random_() % 2 == 0, 0};
  Block block = make_block(grow(way), 1, kKickTable);
  if (block.variables.empty()) return;
  const std::vector<std::int32_t> before = current_of(block, values_);
  const Cost cost_before = cost_of_block(block);
  std::vector<double> prices(usage_.size());
  for (std::size_t t = 0; t < prices.size(); ++t) prices[t] = guide_->prices[t] * (0.5 + 2 * uniform());
  std::vector<std::vector<Cost>> costs = priced(block, prices);
  for (std::vector<Cost>& of_variable : costs) {
    for (Cost& cost : of_variable) {
      cost = add(cost, static_cast<Cost>(uniform() * kKick * static_cast<double>(guide_->gap)));
    }
  }
  set_values(block, block.elimination->solve(costs));
  work_ += block.elimination->work();
  const std::int64_t excess = excess_now();
  const Cost cost = cost_of_block(block);
  if (excess > excess_ || cost >= kForbidden) {
    set_values(block, before);
    return;
  }
  excess_ = excess;
  cost_ += cost - cost_before;
}

double NeighbourhoodSearch::typical_price() const {
  const double total = std::accumulate(guide_->prices.begin(), guide_->prices.end(), 0.0);
  return total / static_cast<double>(usage_.size() + 1);
}

/// Where the limit is passed, by `amount` or by a part of the guide's price.
void NeighbourhoodSearch::raise(std::vector<double>& prices, double amount) const {
  for (std::size_t t = 0; t < usage_.size(); ++t) {
    if (usage_[t] > core_.capacity()[t]) prices[t] += std::max({amount, kRaise * guide_->prices[t], prices[t] / 2});
  }
}

}  // namespace autopar::engine
