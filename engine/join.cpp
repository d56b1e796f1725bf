#include "engine/join.h"

#include <algorithm>
#include <utility>

#include "engine/index.h"

namespace autopar::engine {
namespace {

constexpr std::size_t kMostPairs = 400;  // values of a joined variable
constexpr std::size_t kMostPairsToEliminate = 1000;
constexpr std::int64_t kMostTriples = 1 << 18;  // of one cycle that is looked at
constexpr Cost kWorthwhile = 50;                // the gap may be so many times what all joins together bring

/// The edge between two variables; a core has one at most.
std::int32_t edge_between(const Core& core, std::int32_t u, std::int32_t v) {
  const std::vector<std::int32_t>& around = core.variables()[ix(u)].edges;
  const auto at = std::ranges::lower_bound(around, v, std::less(),
                                           [&](std::int32_t edge) { return core.other_end(edge, u).variable; });
  return at != around.end() && core.other_end(*at, u).variable == v ? *at : -1;
}

/// A dual's costs between two variables, by values of `u` (rows) and of `v`. 0 if there is no edge.
struct PairCosts {
  std::size_t width = 0;
  std::vector<Cost> costs;

  PairCosts(const Dual& dual, std::int32_t u, std::int32_t v) {
    const Core& core = dual.core();
    width = core.variables()[ix(v)].costs.size();
    const std::int32_t edge = edge_between(core, u, v);
    if (edge < 0) {
      costs.assign(core.variables()[ix(u)].costs.size() * width, 0);
      return;
    }
    const bool u_is_row = core.edges()[ix(edge)].u.variable == u;
    for (std::int32_t row : *core.end(edge, u).state_of) {
      for (std::int32_t col : *core.end(edge, v).state_of) {
        costs.push_back(u_is_row ? dual.edge_cost(edge, row, col) : dual.edge_cost(edge, col, row));
      }
    }
  }
  Cost at(std::size_t x, std::size_t y) const { return costs[x * width + y]; }
};

struct Cycle {
  std::array<std::int32_t, 3> variables;
  Cost cost = 0;  // of its cheapest values
};

/// The least that the costs on three variables and their edges sum up to.
Cost cost_of_cycle(const Dual& dual, const std::array<std::int32_t, 3>& cycle) {
  const auto [a, b, c] = cycle;
  const Core& core = dual.core();
  const PairCosts ab(dual, a, b);
  const PairCosts ac(dual, a, c);
  const PairCosts bc(dual, b, c);
  Cost least = kForbidden;
  for (std::size_t x = 0; x < core.variables()[ix(a)].costs.size(); ++x) {
    const Cost of_a = dual.node_cost(a, static_cast<std::int32_t>(x));
    for (std::size_t y = 0; y < ab.width && of_a < least; ++y) {
      const Cost of_ab = of_a + dual.node_cost(b, static_cast<std::int32_t>(y)) + ab.at(x, y);
      for (std::size_t z = 0; z < ac.width && of_ab < least; ++z) {
        least = std::min(least, of_ab + dual.node_cost(c, static_cast<std::int32_t>(z)) + ac.at(x, z) + bc.at(y, z));
      }
    }
    if (least == 0) break;
  }
  return least;
}

std::vector<Cycle> costly_cycles(const Dual& dual) {
  const Core& core = dual.core();
  std::vector<Cycle> cycles;
  for (const CoreEdge& edge : core.edges()) {
    for (std::int32_t next : core.variables()[ix(edge.u.variable)].edges) {
      const std::int32_t c = core.other_end(next, edge.u.variable).variable;
      // Each cycle once: its edges' variables ascend.
      if (c < edge.u.variable || c < edge.v.variable || c == edge.v.variable) continue;
      if (edge_between(core, edge.v.variable, c) < 0) continue;
      Cycle cycle{{edge.u.variable, edge.v.variable, c}, 0};
      std::int64_t triples = 1;
      for (std::int32_t v : cycle.variables) triples *= static_cast<std::int64_t>(core.variables()[ix(v)].costs.size());
      if (triples > kMostTriples) continue;
      cycle.cost = cost_of_cycle(dual, cycle.variables);
      if (cycle.cost > 0) cycles.push_back(cycle);
    }
  }
  std::ranges::stable_sort(cycles, std::greater(), &Cycle::cost);
  return cycles;
}

/// All pairs of values that do not cost more than `gap` above the bound.
Join make_join(const Dual& dual, const std::vector<std::vector<Cost>>& reduced, std::int32_t u, std::int32_t v,
               Cost gap) {
  std::vector<Cost> least_u(reduced[ix(u)].size(), kForbidden);
  std::vector<Cost> least_v(reduced[ix(v)].size(), kForbidden);
  const PairCosts between(dual, u, v);
  for (std::size_t x = 0; x < least_u.size(); ++x) {
    for (std::size_t y = 0; y < least_v.size(); ++y) {
      least_u[x] = std::min(least_u[x], between.at(x, y));
      least_v[y] = std::min(least_v[y], between.at(x, y));
    }
  }
  Join join{u, v, {}};
  for (std::size_t x = 0; x < least_u.size(); ++x) {
    for (std::size_t y = 0; y < least_v.size(); ++y) {
      if (between.at(x, y) >= kForbidden) continue;
      // Both reduced costs have the edge's least in them.
      const Cost apart = reduced[ix(u)][x] - least_u[x] + reduced[ix(v)][y] - least_v[y];
      if (apart + between.at(x, y) > gap) continue;
      join.values.push_back({static_cast<std::int32_t>(x), static_cast<std::int32_t>(y)});
    }
  }
  return join;
}

void apply(CostNetwork& network, const Join& join) {
  const Domain& of_u = network.domain(join.u);
  const Domain& of_v = network.domain(join.v);
  Domain joined;
  joined.usage.resize(of_u.usage.size() + of_v.usage.size());
  for (const auto& [x, y] : join.values) {
    joined.costs.push_back(add(of_u.costs[ix(x)], of_v.costs[ix(y)]));
    for (std::size_t s = 0; s < of_u.usage.size(); ++s) joined.usage[s].push_back(of_u.usage[s][ix(x)]);
    for (std::size_t s = 0; s < of_v.usage.size(); ++s) {
      joined.usage[of_u.usage.size() + s].push_back(of_v.usage[s][ix(y)]);
    }
  }
  Projection single(join.values.size(), 0);
  const auto compose = [&](std::int32_t projection, std::size_t end) {
    Projection composed;
    for (const auto& pair : join.values) composed.push_back(network.projections[ix(projection)][ix(pair[end])]);
    network.projections.push_back(std::move(composed));
    return static_cast<std::int32_t>(network.projections.size()) - 1;
  };
  std::vector<Edge> edges;
  for (Edge edge : network.edges) {
    const bool is_inner = (edge.u == join.u && edge.v == join.v) || (edge.u == join.v && edge.v == join.u);
    if (is_inner) {
      const Table& table = network.tables[ix(edge.table)];
      for (std::size_t i = 0; i < join.values.size(); ++i) {
        const bool as_is = edge.u == join.u;
        const std::int32_t row = network.projections[ix(edge.project_u)][ix(join.values[i][as_is ? 0 : 1])];
        const std::int32_t col = network.projections[ix(edge.project_v)][ix(join.values[i][as_is ? 1 : 0])];
        joined.costs[i] = add(joined.costs[i], table.at(row, col));
      }
      continue;
    }
    for (std::size_t end = 0; end < 2; ++end) {
      const std::int32_t variable = end == 0 ? join.u : join.v;
      if (edge.u == variable) {
        edge.u = join.u;
        edge.project_u = compose(edge.project_u, end);
      } else if (edge.v == variable) {
        edge.v = join.u;
        edge.project_v = compose(edge.project_v, end);
      }
    }
    edges.push_back(edge);
  }
  network.edges = std::move(edges);
  Variable& u = network.variables[ix(join.u)];
  Variable& v = network.variables[ix(join.v)];
  u.spans.insert(u.spans.end(), v.spans.begin(), v.spans.end());
  v.spans.clear();
  u.domain = static_cast<std::int32_t>(network.domains.size());
  v.domain = u.domain + 1;
  network.domains.push_back(std::move(joined));
  network.domains.push_back({{0}, {}, {}});
}

}  // namespace

std::vector<Join> choose_joins(const Dual& dual, Cost gap) {
  const std::vector<std::vector<Cost>> reduced = dual.reduced_costs();
  std::vector<Join> joins;
  std::vector<char> is_taken(reduced.size(), 0);
  Cost total = 0;
  for (const Cycle& cycle : costly_cycles(dual)) {
    const auto [a, b, c] = cycle.variables;
    if (is_taken[ix(a)] || is_taken[ix(b)] || is_taken[ix(c)]) continue;
    Join smallest;
    for (const auto& [u, v] : {std::pair{a, b}, {a, c}, {b, c}}) {
      Join join = make_join(dual, reduced, u, v, gap);
      if (smallest.u < 0 || join.values.size() < smallest.values.size()) smallest = std::move(join);
    }
    if (smallest.values.empty() || smallest.values.size() > kMostPairs) continue;
    is_taken[ix(a)] = is_taken[ix(b)] = is_taken[ix(c)] = 1;
    joins.push_back(std::move(smallest));
    total += cycle.cost;
  }
  if (total < gap / kWorthwhile) joins.clear();
  return joins;
}

std::vector<Join> choose_joins_for_elimination(const Dual& dual, Cost gap) {
  const Core& core = dual.core();
  const std::vector<std::vector<Cost>> reduced = dual.reduced_costs();
  std::vector<std::pair<std::int32_t, Join>> candidates;  // the variable that could go
  for (std::size_t v = 0; v < reduced.size(); ++v) {
    const CoreVariable& variable = core.variables()[v];
    if (!variable.usage.empty() || variable.edges.size() != 3) continue;
    const auto self = static_cast<std::int32_t>(v);
    std::array<std::int32_t, 3> around{};
    for (std::size_t i = 0; i < 3; ++i) around[i] = core.other_end(variable.edges[i], self).variable;
    const auto [a, b, c] = around;
    for (const auto& [x, y] : {std::pair{a, b}, {a, c}, {b, c}}) {
      if (reduced[ix(x)].size() * reduced[ix(y)].size() > 16 * kMostPairsToEliminate) continue;
      Join join = make_join(dual, reduced, x, y, gap);
      if (join.values.size() <= kMostPairsToEliminate) candidates.emplace_back(self, std::move(join));
    }
  }
  std::ranges::stable_sort(candidates, std::less(), [](const auto& one) { return one.second.values.size(); });
  std::vector<Join> joins;
  std::vector<char> is_taken(reduced.size(), 0);
  for (auto& [variable, join] : candidates) {
    if (is_taken[ix(variable)] || is_taken[ix(join.u)] || is_taken[ix(join.v)]) continue;
    is_taken[ix(variable)] = is_taken[ix(join.u)] = is_taken[ix(join.v)] = 1;
    joins.push_back(std::move(join));
  }
  return joins;
}

CostNetwork with_joins(CostNetwork network, const std::vector<Join>& joins) {
  for (const Join& join : joins) apply(network, join);
  return network;
}

Assignment restore_joined(const std::vector<Join>& joins, const Assignment& joined) {
  Assignment original = joined;
  for (const Join& join : joins) {
    const auto& pair = join.values[ix(joined[ix(join.u)])];
    original[ix(join.u)] = pair[0];
    original[ix(join.v)] = pair[1];
  }
  return original;
}

Assignment reduce_joined(const std::vector<Join>& joins, const Assignment& original) {
  Assignment joined = original;
  for (const Join& join : joins) {
    const std::array pair{original[ix(join.u)], original[ix(join.v)]};
    const auto at = std::ranges::lower_bound(join.values, pair);
    joined[ix(join.u)] =
        at != join.values.end() && *at == pair ? static_cast<std::int32_t>(at - join.values.begin()) : -1;
    joined[ix(join.v)] = 0;
  }
  return joined;
}

}  // namespace autopar::engine
