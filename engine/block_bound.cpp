#include "engine/block_bound.h"

#include <algorithm>

#include "engine/index.h"

namespace autopar::engine {
namespace {

constexpr int kMaxSweeps = 40;

bool is_forbidden(Cost cost) { return cost >= kForbidden / 2; }

/// Entry of an edge's table for value `own` of one end and `other` of the other.
Cost& entry(Block::Edge& edge, bool own_is_u, std::size_t own, std::size_t other, std::size_t size_v) {
  return own_is_u ? edge.costs[own * size_v + other] : edge.costs[other * size_v + own];
}

}  // namespace

BlockBound::BlockBound(const Block& block) : block_(block), edges_of_(block.variables.size()) {
  for (std::size_t e = 0; e < block.edges.size(); ++e) {
    edges_of_[ix(block.edges[e].u)].push_back(static_cast<std::int32_t>(e));
    edges_of_[ix(block.edges[e].v)].push_back(static_cast<std::int32_t>(e));
  }
  for (const Block::Variable& variable : block.variables) {
    moved_.emplace_back(variable.keep ? variable.costs.size() : 0, 0);
  }
  for (std::size_t v = 0; v < block.variables.size(); ++v) take_minimum(static_cast<std::int32_t>(v));
}

void BlockBound::tighten() {
  const auto count = static_cast<std::int32_t>(block_.variables.size());
  for (int sweep = 0; sweep < kMaxSweeps && !exceeds_gap(); ++sweep) {
    const Cost before = raised_;
    for (std::int32_t v = 0; v < count; ++v) visit(v, true);
    for (std::int32_t v = count - 1; v >= 0; --v) visit(v, false);
    if (raised_ - before <= (block_.gap - raised_) / 100) break;
  }
}

void BlockBound::take_minimum(std::int32_t variable) {
  Block::Variable& self = block_.variables[ix(variable)];
  const Cost least = *std::min_element(self.costs.begin(), self.costs.end());
  if (is_forbidden(least)) {
    raised_ = kForbidden;  // no value is left
    return;
  }
  for (Cost& cost : self.costs) {
    if (!is_forbidden(cost)) cost -= least;
  }
  raised_ = add(raised_, least);
  if (!self.keep) inner_taken_ += least;
}

void BlockBound::visit(std::int32_t variable, bool forwards) {
  if (raised_ >= kForbidden) return;
  take_minimum(variable);
  const auto other = [&](std::int32_t e) {
    const Block::Edge& edge = block_.edges[ix(e)];
    return edge.u == variable ? edge.v : edge.u;
  };
  std::vector<std::int32_t> ahead;
  for (std::int32_t e : edges_of_[ix(variable)]) {
    if ((other(e) > variable) == forwards) ahead.push_back(e);
  }
  const std::size_t behind = edges_of_[ix(variable)].size() - ahead.size();
  auto parts = static_cast<Cost>(std::max(ahead.size(), behind));
  for (std::int32_t e : ahead) push(variable, e, parts--);
  for (std::int32_t e : ahead) pull(e, other(e));
}

// The costs of a variable are spread evenly: one of `parts` shares of what is left goes to this edge.
void BlockBound::push(std::int32_t variable, std::int32_t edge, Cost parts) {
  Block::Variable& self = block_.variables[ix(variable)];
  Block::Edge& table = block_.edges[ix(edge)];
  const bool is_u = table.u == variable;
  const std::size_t size_v = block_.variables[ix(table.v)].costs.size();
  const std::size_t others = block_.variables[ix(is_u ? table.v : table.u)].costs.size();
  for (std::size_t x = 0; x < self.costs.size(); ++x) {
    if (is_forbidden(self.costs[x])) continue;
    const Cost amount = self.costs[x] / parts;
    if (amount == 0) continue;
    self.costs[x] -= amount;
    if (self.keep) moved_[ix(variable)][x] -= amount;
    for (std::size_t y = 0; y < others; ++y) {
      Cost& cost = entry(table, is_u, x, y, size_v);
      if (!is_forbidden(cost)) cost += amount;
    }
  }
}

void BlockBound::pull(std::int32_t edge, std::int32_t into) {
  Block::Variable& self = block_.variables[ix(into)];
  Block::Edge& table = block_.edges[ix(edge)];
  const bool is_u = table.u == into;
  const std::size_t size_v = block_.variables[ix(table.v)].costs.size();
  const std::vector<Cost>& partner = block_.variables[ix(is_u ? table.v : table.u)].costs;
  for (std::size_t x = 0; x < self.costs.size(); ++x) {
    if (is_forbidden(self.costs[x])) continue;
    Cost least = kForbidden;
    for (std::size_t y = 0; y < partner.size(); ++y) {
      if (!is_forbidden(partner[y])) least = std::min(least, entry(table, is_u, x, y, size_v));
    }
    if (is_forbidden(least)) {
      self.costs[x] = kForbidden;
      continue;
    }
    if (least == 0) continue;
    self.costs[x] += least;
    if (self.keep) moved_[ix(into)][x] += least;
    for (std::size_t y = 0; y < partner.size(); ++y) {
      Cost& cost = entry(table, is_u, x, y, size_v);
      if (!is_forbidden(cost)) cost -= least;
    }
  }
}

Block BlockBound::tightened() const {
  Block block = block_;
  block.gap -= raised_;
  for (Block::Variable& variable : block.variables) {
    for (Cost& cost : variable.costs) {
      if (cost > block.gap) cost = kForbidden;
    }
  }
  return block;
}

Cost BlockBound::inner_cost(const Block& part) const {
  Cost total = inner_taken_;
  for (std::size_t v = 0; v < part.variables.size(); ++v) {
    if (!part.variables[v].keep) continue;
    const std::vector<Cost>& costs = part.variables[v].costs;
    const auto allowed = std::min_element(costs.begin(), costs.end());
    total += moved_[v][ix(allowed - costs.begin())];
  }
  return total;
}

void BlockBound::restore(Relation& relation) const {
  relation.least_excess = relation.rows.empty() ? 0 : kForbidden;
  for (Relation::Row& row : relation.rows) {
    row.excess += inner_taken_;
    for (const Relation::Field& field : relation.scope) {
      row.excess += moved_[ix(field.variable)][ix(field.value(row.key))];
    }
    relation.least_excess = std::min(relation.least_excess, row.excess);
  }
}

}  // namespace autopar::engine
