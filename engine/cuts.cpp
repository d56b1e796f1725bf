#include "engine/cuts.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "engine/index.h"

namespace autopar::engine {
namespace {

constexpr std::size_t kMostCuts = 48;    // at a time
constexpr std::size_t kMostPoints = 64;  // whose cuts are looked for
constexpr std::size_t kMostPerBase = 2;
constexpr std::size_t kMostDivisors = 64;  // tried per point
constexpr double kNoticeable = 1e-3;       // of the most that a point's price is worth, for cuts of another point
constexpr double kBroken = 1e-3;           // of a cut's largest weight, by which it has to be broken

/// What a variable uses at a point.
struct User {
  std::int32_t variable = -1;
  std::vector<std::int64_t> amounts;  // per value, the least 0
  std::int64_t most = 0;              // of them
  std::int64_t base = 0;              // from which they are counted
  std::int32_t cheapest = 0;          // the value that it takes,
  std::int32_t other = 0;             // or this one
  double share = 0;                   // of the other one
};

/// F of choose_cuts.
class Rounding {
 public:
  Rounding(std::int64_t divisor, std::int64_t capacity)
      : divisor_(divisor), remainder_(capacity - floor_of(capacity) * divisor) {}
  std::int64_t operator()(std::int64_t amount) const {
    const std::int64_t whole = floor_of(amount);
    return whole * (divisor_ - remainder_) + std::max<std::int64_t>(amount - whole * divisor_ - remainder_, 0);
  }

 private:
  std::int64_t floor_of(std::int64_t amount) const { return amount / divisor_ - (amount % divisor_ < 0 ? 1 : 0); }
  std::int64_t divisor_;
  std::int64_t remainder_;
};

std::vector<User> users_at(const Core& core, std::size_t point) {
  std::vector<User> users;
  for (std::size_t v = 0; v < core.variables().size(); ++v) {
    const VariableUsage& usage = core.variables()[v].usage;
    for (std::size_t p = 0; p < usage.pieces.size(); ++p) {
      if (std::cmp_less(point, usage.pieces[p].first) || !std::cmp_less(point, usage.pieces[p].last)) continue;
      User& user = users.emplace_back();
      user.variable = static_cast<std::int32_t>(v);
      for (std::size_t i = p; i < usage.amounts.size(); i += usage.pieces.size()) {
        user.amounts.push_back(usage.amounts[i]);
      }
      user.most = std::ranges::max(user.amounts);
    }
  }
  return users;
}

/// A user's way from its cheapest value to another one.
struct Move {
  double cost = 0;  // per change of usage
  std::size_t user = 0;
  std::int32_t to = 0;
};

/// Lets each user take its cheapest value, then those move on that pay the least for it until the capacity is used up:
/// the last one in part. Returns the moves, cheapest first.
std::vector<Move> take_cheapest(const std::vector<std::vector<Cost>>& reduced, std::int64_t capacity,
                                std::vector<User>& users) {
  std::int64_t left = capacity;
  for (User& user : users) {
    const std::vector<Cost>& costs = reduced[ix(user.variable)];
    for (std::size_t x = 1; x < costs.size(); ++x) {
      const std::pair now(costs[ix(user.cheapest)], user.amounts[ix(user.cheapest)]);
      if (std::pair(costs[x], user.amounts[x]) < now) user.cheapest = static_cast<std::int32_t>(x);
    }
    user.other = user.cheapest;
    left -= user.amounts[ix(user.cheapest)];
  }
  const bool grows = left > 0;
  std::vector<Move> moves;
  for (std::size_t u = 0; u < users.size(); ++u) {
    const std::vector<Cost>& costs = reduced[ix(users[u].variable)];
    for (std::size_t x = 0; x < costs.size(); ++x) {
      const std::int64_t change = users[u].amounts[x] - users[u].amounts[ix(users[u].cheapest)];
      if (change == 0 || (change > 0) != grows) continue;
      const auto cost = static_cast<double>(costs[x] - costs[ix(users[u].cheapest)]);
      moves.push_back({cost / static_cast<double>(std::abs(change)), u, static_cast<std::int32_t>(x)});
    }
  }
  std::ranges::stable_sort(moves, {}, &Move::cost);
  for (const Move& move : moves) {
    User& user = users[move.user];
    const std::int64_t change = user.amounts[ix(move.to)] - user.amounts[ix(user.cheapest)];
    const std::int64_t taken = user.amounts[ix(user.other)] - user.amounts[ix(user.cheapest)];
    if (std::abs(change) <= std::abs(taken)) continue;
    user.other = move.to;
    user.share = 1;
    if (std::abs(change - taken) < std::abs(left)) {
      left -= change - taken;
      continue;
    }
    user.share = static_cast<double>(taken + left) / static_cast<double>(change);
    break;
  }
  return moves;
}

struct Candidate {
  double broken = 0;  // by so many of its largest weights
  Cut cut;
};

/// How much the users' shares break the cut of this divisor, in its largest weight.
double broken_by(const std::vector<User>& users, std::int64_t divisor, std::int64_t capacity) {
  const Rounding rounding(divisor, capacity);
  double excess = -static_cast<double>(rounding(capacity));
  double most = 1;
  const auto weight_of = [&](const User& user, std::int64_t amount) {
    return static_cast<double>(rounding(amount - user.base));
  };
  for (const User& user : users) {
    most = std::max({most, std::abs(weight_of(user, 0)), std::abs(weight_of(user, user.most))});
    excess += (1 - user.share) * weight_of(user, user.amounts[ix(user.cheapest)]);
    excess += user.share * weight_of(user, user.amounts[ix(user.other)]);
  }
  return excess / most;
}

/// Usages that the cheapest moves change.
std::set<std::int64_t> divisors_of(const std::vector<User>& users, const std::vector<Move>& moves) {
  std::set<std::int64_t> divisors;
  for (const Move& move : moves) {
    if (divisors.size() >= kMostDivisors) break;
    const User& user = users[move.user];
    const std::int64_t amount = std::abs(user.amounts[ix(move.to)] - user.amounts[ix(user.cheapest)]);
    divisors.insert(amount);
    if (amount > 3) divisors.insert(amount / 2);
  }
  return divisors;
}

Cut make_cut(const std::vector<User>& users, std::int64_t divisor, std::int64_t capacity) {
  const Rounding rounding(divisor, capacity);
  Cut cut;
  cut.capacity = rounding(capacity);
  for (const User& user : users) {
    Cut::Term term{user.variable, {}};
    for (std::int64_t amount : user.amounts) term.weights.push_back(rounding(amount - user.base));
    const auto [least, most] = std::ranges::minmax(term.weights);
    cut.capacity -= least;
    if (least == most) continue;
    for (std::int64_t& weight : term.weights) weight -= least;
    cut.terms.push_back(std::move(term));
  }
  return cut;
}

/// The most broken cuts of a point, of either base.
void add_cuts_of(const Core& core, std::size_t point, const std::vector<std::vector<Cost>>& reduced,
                 std::vector<Candidate>& candidates) {
  std::vector<User> users = users_at(core, point);
  const std::vector<Move> moves = take_cheapest(reduced, core.capacity()[point], users);
  const std::set<std::int64_t> divisors = divisors_of(users, moves);
  for (const bool from_least : {true, false}) {
    std::int64_t capacity = core.capacity()[point];
    for (User& user : users) {
      user.base = from_least ? 0 : user.amounts[ix(user.share > 0.5 ? user.other : user.cheapest)];
      capacity -= user.base;
    }
    std::vector<std::pair<double, std::int64_t>> broken;
    for (std::int64_t divisor : divisors) {
      const double by = broken_by(users, divisor, capacity);
      if (by > kBroken) broken.emplace_back(by, divisor);
    }
    const auto kept = broken.begin() + static_cast<std::ptrdiff_t>(std::min(kMostPerBase, broken.size()));
    std::ranges::partial_sort(broken, kept, std::greater());
    for (auto at = broken.begin(); at != kept; ++at) {
      candidates.push_back({at->first, make_cut(users, at->second, capacity)});
    }
  }
}

}  // namespace

std::vector<Cut> choose_cuts(const Dual& dual) {
  const std::vector<std::vector<Cost>> reduced = dual.reduced_costs();
  const Prices& prices = dual.prices();
  const std::vector<std::int64_t>& capacity = dual.core().capacity();
  std::vector<std::pair<double, std::size_t>> points;  // by what their prices are worth
  for (std::size_t t = 0; t < prices.size(); ++t) {
    points.emplace_back(price_per_unit(prices[t]) * static_cast<double>(capacity[t]), t);
  }
  std::ranges::sort(points, std::greater());
  if (points.size() > kMostPoints) points.resize(kMostPoints);
  std::vector<Candidate> candidates;
  for (const auto& [worth, t] : points) {
    if (worth <= kNoticeable * points.front().first) break;
    add_cuts_of(dual.core(), t, reduced, candidates);
  }
  std::ranges::stable_sort(candidates, std::greater(), &Candidate::broken);
  std::vector<Cut> cuts;
  for (Candidate& candidate : candidates) {
    if (cuts.size() >= kMostCuts) break;
    // Neighbouring points mostly give the same.
    if (std::ranges::find(cuts, candidate.cut) == cuts.end()) cuts.push_back(std::move(candidate.cut));
  }
  return cuts;
}

std::int32_t end_of_times(const CostNetwork& network) {
  auto end = static_cast<std::int32_t>(network.base_usage.size());
  for (const Variable& variable : network.variables) {
    for (const Span& span : variable.spans) end = std::max(end, span.end);
  }
  return end;
}

CostNetwork with_cuts(const CostNetwork& network, const std::vector<Cut>& cuts) {
  CostNetwork result = network;
  std::int32_t time = end_of_times(network);
  result.base_usage.resize(ix(time), 0);
  std::vector<char> has_own_domain(network.variables.size(), 0);
  for (const Cut& cut : cuts) {
    result.base_usage.push_back(network.usage_limit - cut.capacity);
    for (const Cut::Term& term : cut.terms) {
      Variable& variable = result.variables[ix(term.variable)];
      if (!std::exchange(has_own_domain[ix(term.variable)], 1)) {
        result.domains.push_back(Domain(result.domains[ix(variable.domain)]));
        variable.domain = static_cast<std::int32_t>(result.domains.size()) - 1;
      }
      variable.spans.push_back({time, time + 1});
      result.domains[ix(variable.domain)].usage.push_back(term.weights);
    }
    ++time;
  }
  return result;
}

}  // namespace autopar::engine
