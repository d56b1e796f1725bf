#include "engine/dual.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/index.h"
#include "engine/vectorise.h"

namespace autopar::engine {
namespace {

// Beside min_minus() the hot spots of a sweep.

/// of_value[x] += of_state[state_of[x]].
AUTOPAR_VECTORISED void add_by_state(Cost* of_value, const std::int32_t* state_of, std::size_t count,
                                     const Cost* of_state) {
  for (std::size_t x = 0; x < count; ++x) of_value[x] += of_state[state_of[x]];
}

/// of_value[x] -= of_state[state_of[x]].
AUTOPAR_VECTORISED void subtract_by_state(Cost* of_value, const std::int32_t* state_of, std::size_t count,
                                          const Cost* of_state) {
  for (std::size_t x = 0; x < count; ++x) of_value[x] -= of_state[state_of[x]];
}

/// Raises total[state] to least[state] where that is more. Leaves in `least` by how much.
AUTOPAR_VECTORISED void raise_to(Cost* total, std::size_t count, Cost* least) {
  for (std::size_t state = 0; state < count; ++state) {
    const Cost rise = least[state] - total[state];
    least[state] = rise > 0 ? rise : 0;
    total[state] += least[state];
  }
}

}  // namespace

Dual::Dual(const Core& core) : core_(core), constant_(core.constant()) {
  take_prices(Prices(core.capacity().size(), 0));
  const std::vector<CoreVariable>& variables = core.variables();
  taken_.assign(variables.size(), 0);
  std::size_t most_edges = 0;
  for (const CoreVariable& variable : variables) {
    offset_.push_back(theta_.size());
    theta_.insert(theta_.end(), variable.costs.begin(), variable.costs.end());
    most_edges = std::max(most_edges, variable.edges.size());
  }
  push_.resize(most_edges);
  marginals_ = theta_;
  for (const CoreEdge& edge : core.edges()) {
    moved_at_.push_back(moved_.size());
    moved_.resize(moved_.size() + ix(edge.table->rows) + ix(edge.table->cols), 0);
  }
  for (std::size_t v = 0; v < variables.size(); ++v) take_minimum(static_cast<std::int32_t>(v));
}

void Dual::warm_start(const Dual& other) {
  take_messages(other, [](std::int32_t source) { return source; });
  if (!prices_.empty()) set_prices(carry_prices(other.core_.times(), other.prices_, core_.times()));
}

void Dual::warm_start(const Dual& other, const std::vector<std::int32_t>& edge_of) {
  take_messages(other, [&](std::int32_t source) { return edge_of[ix(source)]; });
}

template <class SourceOf>
void Dual::take_messages(const Dual& other, const SourceOf& source_of) {
  const std::vector<CoreEdge>& edges = core_.edges();
  for (std::size_t e = 0; e < edges.size(); ++e) {
    take_message(static_cast<std::int32_t>(e), other, source_of(edges[e].source));
  }
  for (std::size_t v = 0; v < core_.variables().size(); ++v) take_minimum(static_cast<std::int32_t>(v));
}

// A subset of a table's rows and columns has costs >= 0 as the whole one has, so the message stays valid. That of an
// edge that was folded away is dropped.
void Dual::take_message(std::int32_t edge, const Dual& other, std::int32_t source) {
  const CoreEdge& here = core_.edges()[ix(edge)];
  const std::vector<CoreEdge>& others = other.core_.edges();
  const auto there = std::ranges::lower_bound(others, source, {}, &CoreEdge::source);
  if (there == others.end() || there->source != source) return;
  if (!std::ranges::includes(*there->u.states, *here.u.states)) return;
  if (!std::ranges::includes(*there->v.states, *here.v.states)) return;
  const auto at = static_cast<std::int32_t>(there - others.begin());
  const auto take_over = [&](const CoreEnd& end, const CoreEnd& from, bool is_u) {
    const std::span<const Cost> message = other.moved(at, is_u);
    const std::span<Cost> own = moved(edge, is_u);
    for (std::size_t state = 0; state < own.size(); ++state) {
      const auto where = std::lower_bound(from.states->begin(), from.states->end(), (*end.states)[state]);
      own[state] = message[ix(where - from.states->begin())];
    }
    add_by_state(theta_.data() + offset(end.variable), end.state_of->data(), end.state_of->size(), own.data());
  };
  take_over(here.u, there->u, true);
  take_over(here.v, there->v, false);
}

void Dual::restore(const Dual& other) {
  take_prices(other.prices_);
  constant_ = other.constant_;
  theta_ = other.theta_;
  taken_ = other.taken_;
  marginals_ = other.marginals_;
  moved_ = other.moved_;
}

std::span<Cost> Dual::moved(std::int32_t edge, bool to_u) {
  const Table& table = *core_.edges()[ix(edge)].table;
  return std::span(moved_).subspan(moved_at_[ix(edge)] + (to_u ? 0 : ix(table.rows)),
                                   ix(to_u ? table.rows : table.cols));
}

std::span<const Cost> Dual::moved(std::int32_t edge, bool to_u) const {
  const Table& table = *core_.edges()[ix(edge)].table;
  return std::span(moved_).subspan(moved_at_[ix(edge)] + (to_u ? 0 : ix(table.rows)),
                                   ix(to_u ? table.rows : table.cols));
}

void Dual::charge_others(std::int32_t variable, const std::vector<std::int32_t>& allowed, Cost cost) {
  for (std::size_t x = 0; x < core_.variables()[ix(variable)].costs.size(); ++x) {
    if (!std::ranges::binary_search(allowed, static_cast<std::int32_t>(x))) theta_[offset(variable) + x] += cost;
  }
  take_minimum(variable);
}

Cost Dual::usage_price(std::int32_t variable, std::int32_t x) const {
  const VariableUsage& usage = core_.variables()[ix(variable)].usage;
  if (usage.empty()) return 0;
  Wide price = 0;
  const auto amounts = usage.of(x);
  for (std::size_t p = 0; p < amounts.size(); ++p) {
    price += (prices_before_[ix(usage.pieces[p].last)] - prices_before_[ix(usage.pieces[p].first)]) * amounts[p];
  }
  return static_cast<Cost>(price >> kPriceShift);
}

void Dual::set_prices(const Prices& prices) {
  const auto add_prices = [this](Cost sign) {
    for (std::size_t v = 0; v < core_.variables().size(); ++v) {
      if (core_.variables()[v].usage.empty()) continue;
      for (std::size_t x = 0; x < core_.variables()[v].costs.size(); ++x) {
        theta_[offset_[v] + x] += sign * usage_price(static_cast<std::int32_t>(v), static_cast<std::int32_t>(x));
      }
    }
  };
  add_prices(-1);
  take_prices(prices);
  add_prices(1);
  for (std::size_t v = 0; v < core_.variables().size(); ++v) take_minimum(static_cast<std::int32_t>(v));
}

void Dual::take_prices(const Prices& prices) {
  prices_ = prices;
  prices_before_.assign(prices.size() + 1, 0);
  for (std::size_t t = 0; t < prices.size(); ++t) prices_before_[t + 1] = prices_before_[t] + prices[t];
}

// For an assignment within the limit, Σ floor(price · usage) <= floor(Σ price · capacity): what pricing added to its
// cost is at most this, so the constant less this bounds the cost itself.
Cost Dual::price_of_capacity() const {
  Wide total = 0;
  for (std::size_t t = 0; t < prices_.size(); ++t) total += Wide{prices_[t]} * core_.capacity()[t];
  return static_cast<Cost>(total >> kPriceShift);
}

Cost Dual::bound() const { return constant_ - price_of_capacity(); }

Cost Dual::edge_cost(std::int32_t edge, std::int32_t row, std::int32_t col) const {
  const Cost cost = core_.edges()[ix(edge)].table->at(row, col);
  if (cost >= kForbidden) return kForbidden;
  return cost - moved(edge, true)[ix(row)] - moved(edge, false)[ix(col)];
}

std::span<const Cost> Dual::message(std::int32_t edge, std::int32_t variable) const {
  return moved(edge, core_.edges()[ix(edge)].u.variable == variable);
}

void Dual::take_minimum(std::int32_t variable) {
  const auto first = theta_.begin() + static_cast<std::ptrdiff_t>(offset(variable));
  const auto last = first + static_cast<std::ptrdiff_t>(core_.variables()[ix(variable)].costs.size());
  const Cost least = *std::min_element(first, last);
  if (least == 0) return;
  for (auto value = first; value != last; ++value) *value -= least;
  constant_ = add(constant_, least);
  taken_[ix(variable)] += least;
}

void Dual::sweep(Precision precision) {
  const auto count = static_cast<std::int32_t>(core_.variables().size());
  for (std::int32_t v = 0; v < count; ++v) visit(v, true, precision);
  for (std::int32_t v = count - 1; v >= 0; --v) visit(v, false, precision);
}

void Dual::visit(std::int32_t variable, bool forwards, Precision precision) {
  const CoreVariable& self = core_.variables()[ix(variable)];
  take_minimum(variable);
  std::copy_n(theta_.begin() + static_cast<std::ptrdiff_t>(offset(variable)), self.costs.size(),
              marginals_.begin() + static_cast<std::ptrdiff_t>(offset(variable)));
  if (self.edges.empty()) return;
  // Edges are in order of the other end: the earlier ones first.
  const auto split = std::partition_point(self.edges.begin(), self.edges.end(), [&](std::int32_t edge) {
    return core_.other_end(edge, variable).variable < variable;
  });
  const auto ahead_first = forwards ? split : self.edges.begin();
  const auto ahead_last = forwards ? self.edges.end() : split;
  const auto num_ahead = static_cast<std::size_t>(ahead_last - ahead_first);
  const auto num_behind = self.edges.size() - num_ahead;
  const auto parts = static_cast<Cost>(std::max(num_ahead, num_behind));
  for (std::size_t i = 0; i < num_ahead; ++i) {
    const std::int32_t edge = ahead_first[static_cast<std::ptrdiff_t>(i)];
    const Projection& state_of = *core_.end(edge, variable).state_of;
    std::vector<Cost>& amount = push_[i];
    amount.assign(message(edge, variable).size(), kForbidden);
    for (std::size_t x = 0; x < state_of.size(); ++x) {
      Cost& least = amount[ix(state_of[x])];
      least = std::min(least, theta_[offset(variable) + x]);
    }
    if (parts == 1) continue;
    for (Cost& part : amount) part /= parts;
  }
  for (std::size_t i = 0; i < num_ahead; ++i) push(variable, ahead_first[static_cast<std::ptrdiff_t>(i)], push_[i]);
  for (auto edge = ahead_first; edge != ahead_last; ++edge) {
    pull(*edge, core_.other_end(*edge, variable).variable, precision);
  }
}

void Dual::push(std::int32_t variable, std::int32_t edge, const std::vector<Cost>& amount) {
  const std::span<Cost> total = moved(edge, core_.edges()[ix(edge)].u.variable == variable);
  for (std::size_t state = 0; state < amount.size(); ++state) total[state] -= amount[state];
  const Projection& state_of = *core_.end(edge, variable).state_of;
  subtract_by_state(theta_.data() + offset(variable), state_of.data(), state_of.size(), amount.data());
}

void Dual::pull(std::int32_t edge, std::int32_t into, Precision precision) {
  const CoreEdge& e = core_.edges()[ix(edge)];
  const bool into_v = e.v.variable == into;
  const std::span<const Cost> other = moved(edge, into_v);
  const std::span<Cost> total = moved(edge, !into_v);
  pulled_.resize(total.size());
  if (precision == Precision::kExact || !e.coarse || !e.coarse->min_minus(into_v, other, pulled_, coarse_)) {
    min_minus(*e.table, into_v, other, pulled_);
  }
  // What was moved before is allowed, so that a coarse minimum below that is too low.
  raise_to(total.data(), total.size(), pulled_.data());
  const Projection& state_of = into_v ? *e.v.state_of : *e.u.state_of;
  add_by_state(theta_.data() + offset(into), state_of.data(), state_of.size(), pulled_.data());
}

const std::vector<Cost>& Dual::reduced_costs(std::int32_t edge, bool of_v, ReducedCosts& known) const {
  const Table& table = *core_.edges()[ix(edge)].table;
  const std::span<const Cost> other = moved(edge, of_v);
  const std::span<const Cost> own = moved(edge, !of_v);
  std::vector<std::pair<std::int32_t, std::vector<Cost>>>& alike = known[{&table, of_v}];
  for (const auto& [first, costs] : alike) {
    if (std::ranges::equal(moved(first, of_v), other) && std::ranges::equal(moved(first, !of_v), own)) return costs;
  }
  std::vector<Cost> least(own.size());
  min_minus(table, of_v, other, least);
  for (std::size_t state = 0; state < own.size(); ++state) least[state] -= own[state];
  return alike.emplace_back(edge, std::move(least)).second;
}

std::vector<std::vector<Cost>> Dual::reduced_costs() const {
  std::vector<std::vector<Cost>> reduced;
  ReducedCosts known;
  for (std::size_t v = 0; v < core_.variables().size(); ++v) {
    const CoreVariable& self = core_.variables()[v];
    std::vector<Cost> costs(theta_.begin() + static_cast<std::ptrdiff_t>(offset_[v]),
                            theta_.begin() + static_cast<std::ptrdiff_t>(offset_[v] + self.costs.size()));
    for (const std::int32_t edge : self.edges) {
      const CoreEdge& e = core_.edges()[ix(edge)];
      const bool is_v = std::cmp_equal(e.v.variable, v);
      const std::vector<Cost>& of_edge = reduced_costs(edge, is_v, known);
      const Projection& state_of = is_v ? *e.v.state_of : *e.u.state_of;
      for (std::size_t x = 0; x < costs.size(); ++x) costs[x] = add(costs[x], of_edge[ix(state_of[x])]);
    }
    reduced.push_back(std::move(costs));
  }
  return reduced;
}

std::vector<std::int32_t> Dual::round() const {
  std::vector<std::int32_t> chosen(core_.variables().size(), -1);
  std::vector<Cost> least;
  for (std::size_t v = 0; v < core_.variables().size(); ++v) {
    const CoreVariable& self = core_.variables()[v];
    const auto variable = static_cast<std::int32_t>(v);
    Cost best = std::numeric_limits<Cost>::max();
    for (std::size_t x = 0; x < self.costs.size(); ++x) {
      Cost cost = theta_[offset_[v] + x];
      for (std::int32_t edge : self.edges) {
        const CoreEdge& e = core_.edges()[ix(edge)];
        const CoreEnd& other = core_.other_end(edge, variable);
        if (other.variable > variable) break;  // not chosen yet: its edge costs the least it can
        const std::int32_t there = (*other.state_of)[ix(chosen[ix(other.variable)])];
        const std::int32_t here = (*core_.end(edge, variable).state_of)[x];
        cost = add(cost, e.u.variable == variable ? edge_cost(edge, here, there) : edge_cost(edge, there, here));
      }
      if (cost < best) {
        best = cost;
        chosen[v] = static_cast<std::int32_t>(x);
      }
    }
  }
  return chosen;
}

}  // namespace autopar::engine
