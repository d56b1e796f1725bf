#include <algorithm>
#include <utility>

#include "engine/index.h"
#include "engine/presolve.h"

/// Presolve's steps that turn an edge into costs: variables that follow from others, tables that are sums.
namespace autopar::engine {
namespace {

/// A table over the states that two variables have, as the sum of a row and a column.
struct Sum {
  bool exists = false;
  std::vector<Cost> of_row;
  std::vector<Cost> of_col;
};

/// The columns' part is >= 0.
Sum as_sum(const Table& table, const std::vector<std::int32_t>& rows, const std::vector<std::int32_t>& cols) {
  Sum sum;
  Cost least = kForbidden;
  for (std::int32_t col : cols) least = std::min(least, table.at(rows[0], col));
  for (std::int32_t row : rows) {
    for (std::int32_t col : cols) {
      const Cost cost = table.at(row, col);
      if (cost >= kForbidden || cost - table.at(row, cols[0]) != table.at(rows[0], col) - table.at(rows[0], cols[0])) {
        return sum;
      }
    }
  }
  sum.exists = true;
  sum.of_row.assign(ix(table.rows), 0);
  sum.of_col.assign(ix(table.cols), 0);
  for (std::int32_t col : cols) sum.of_col[ix(col)] = table.at(rows[0], col) - least;
  for (std::int32_t row : rows) sum.of_row[ix(row)] = table.at(row, cols[0]) - sum.of_col[ix(cols[0])];
  return sum;
}

}  // namespace

bool Presolve::fold(std::int32_t variable) {
  bool changed = false;
  for (const View& view : views(variable)) {
    const Edge edge = net_.edges[ix(view.edge)];
    std::int32_t& domain_u = net_.variables[ix(edge.u)].domain;
    std::int32_t& domain_v = net_.variables[ix(edge.v)].domain;
    const auto [entry, is_new] = work_.fold_memo.try_emplace(
        Key{edge.table, edge.project_u, edge.project_v, domain_u, domain_v}, std::array<std::int32_t, 2>{-1, -1});
    if (is_new) {
      const Projection& project_u = net_.projections[ix(edge.project_u)];
      const Projection& project_v = net_.projections[ix(edge.project_v)];
      const Sum sum = as_sum(net_.tables[ix(edge.table)], states_of(project_u), states_of(project_v));
      if (sum.exists) {
        entry->second[0] = intern(with_costs(net_.domains[ix(domain_u)], project_u, sum.of_row));
        entry->second[1] = intern(with_costs(net_.domains[ix(domain_v)], project_v, sum.of_col));
      }
    }
    if (entry->second[0] < 0) continue;
    domain_u = entry->second[0];
    domain_v = entry->second[1];
    kill_edge(view.edge);
    wake(view.other);
    ++counts_.folded_edges;
    changed = true;
  }
  return changed;
}

bool Presolve::contract(std::int32_t variable) {
  const std::vector<View> around = views(variable);
  const View* into = nullptr;
  for (const View& view : around) {
    // Of two that follow from each other the one with more neighbours stays.
    if (map_of(view) < 0) continue;
    const bool both = map_of(this->view(view.edge, view.other)) >= 0;
    const std::size_t degree = work_.edges_of[ix(view.other)].size();
    if (both && std::pair(degree, view.other) < std::pair(around.size(), variable)) continue;
    if (!into || degree > work_.edges_of[ix(into->other)].size()) into = &view;
  }
  if (!into) return false;
  contract_into(variable, *into, map_of(*into));
  return true;
}

/// If each value of the other end allows exactly one value of the view's own: which, as an index into maps_. Else -1.
std::int32_t Presolve::map_of(const View& view) {
  const Key key{view.table, view.self_project, view.other_project, view.self_is_row};
  const auto [entry, is_new] = work_.map_memo.try_emplace(key, -1);
  if (!is_new) return entry->second;
  const Projection& self = net_.projections[ix(view.self_project)];
  const Projection& other = net_.projections[ix(view.other_project)];
  std::vector<std::int32_t> values_at(ix(num_states(view.table, view.self_is_row)), 0);
  std::vector<std::int32_t> value_at(values_at.size(), -1);
  for (std::size_t x = 0; x < self.size(); ++x) {
    ++values_at[ix(self[x])];
    value_at[ix(self[x])] = static_cast<std::int32_t>(x);
  }
  std::vector<std::int32_t> follows_from(ix(num_states(view.table, !view.self_is_row)), -1);
  for (std::int32_t there : states_of(other)) {
    std::int32_t allowed = 0;
    for (std::size_t here = 0; here < values_at.size() && allowed < 2; ++here) {
      if (values_at[here] == 0 || cost(view, static_cast<std::int32_t>(here), there) >= kForbidden) continue;
      allowed += values_at[here];
      follows_from[ix(there)] = value_at[here];
    }
    if (allowed != 1) return -1;
  }
  std::vector<std::int32_t> map;
  for (std::int32_t state : other) map.push_back(follows_from[ix(state)]);
  entry->second = static_cast<std::int32_t>(maps_.size());
  maps_.push_back(std::move(map));
  return entry->second;
}

void Presolve::contract_into(std::int32_t variable, const View& into, std::int32_t map) {
  Eliminated step{variable, net_.variables[ix(variable)].domain, values_[ix(variable)], {}, {-1, -1}, 1, map};
  step.views[0] = into;
  step.other_values[0] = values_[ix(into.other)];
  eliminated_.push_back(step);
  std::int32_t& target = net_.variables[ix(into.other)].domain;
  Domain domain = net_.domains[ix(target)];
  const std::vector<std::int32_t> follows = maps_[ix(map)];
  const Projection& other = net_.projections[ix(into.other_project)];
  const Projection& self = net_.projections[ix(into.self_project)];
  for (std::size_t y = 0; y < follows.size(); ++y) {
    const auto x = ix(follows[y]);
    domain.costs[y] = add(domain.costs[y], add(net_.domain(variable).costs[x], cost(into, self[x], other[y])));
  }
  target = intern(std::move(domain));
  kill_edge(into.edge);
  const std::vector<std::int32_t> moving = work_.edges_of[ix(variable)];
  for (std::int32_t e : moving) {
    Edge& edge = net_.edges[ix(e)];
    const bool is_u = edge.u == variable;
    const std::int32_t projection = restrict_projection(is_u ? edge.project_u : edge.project_v, follows);
    (is_u ? edge.u : edge.v) = into.other;
    (is_u ? edge.project_u : edge.project_v) = projection;
    work_.edges_of[ix(into.other)].push_back(e);
    wake(is_u ? edge.v : edge.u);
  }
  work_.edges_of[ix(variable)].clear();
  for (const Use& use : work_.uses[ix(variable)]) {
    work_.uses[ix(into.other)].push_back({use.span, restrict_row(use.row, follows)});
  }
  work_.uses[ix(variable)].clear();
  work_.variable_alive[ix(variable)] = 0;
  wake(into.other);
  ++counts_.contracted;
}

}  // namespace autopar::engine
