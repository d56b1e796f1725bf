#include "engine/greedy.h"

#include <algorithm>
#include <tuple>

#include "engine/index.h"

namespace autopar::engine {
namespace {

/// Of each variable, the edges to variables before it.
std::vector<std::vector<std::int32_t>> edges_to_earlier(const CostNetwork& network) {
  std::vector<std::vector<std::int32_t>> edges(network.variables.size());
  for (std::size_t e = 0; e < network.edges.size(); ++e) {
    edges[ix(std::max(network.edges[e].u, network.edges[e].v))].push_back(static_cast<std::int32_t>(e));
  }
  return edges;
}

/// Usage times how long it lasts.
std::int64_t usage_of(const Domain& domain, const Variable& variable, std::size_t value) {
  std::int64_t sum = 0;
  for (std::size_t s = 0; s < domain.usage.size(); ++s) {
    const std::int64_t length = variable.spans[s].end - variable.spans[s].start;
    sum = add(sum, std::min(domain.usage[s][value], kForbidden / std::max<std::int64_t>(length, 1)) * length);
  }
  return sum;
}

}  // namespace

Assignment greedy_assignment(const CostNetwork& network, bool by_usage) {
  const std::vector<std::vector<std::int32_t>> edges = edges_to_earlier(network);
  Assignment assignment(network.variables.size(), 0);
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    const Domain& domain = network.domain(v);
    std::vector<Cost> costs = domain.costs;
    for (std::int32_t e : edges[ix(v)]) {
      const Edge& edge = network.edges[ix(e)];
      const Table& table = network.tables[ix(edge.table)];
      const Projection& rows = network.projections[ix(edge.project_u)];
      const Projection& cols = network.projections[ix(edge.project_v)];
      for (std::size_t x = 0; x < costs.size(); ++x) {
        costs[x] = add(costs[x], edge.u == v ? table.at(rows[x], cols[ix(assignment[ix(edge.v)])])
                                             : table.at(rows[ix(assignment[ix(edge.u)])], cols[x]));
      }
    }
    std::tuple<bool, std::int64_t, Cost> best;
    for (std::size_t x = 0; x < costs.size(); ++x) {
      const std::int64_t usage = by_usage ? usage_of(domain, network.variables[ix(v)], x) : 0;
      const std::tuple<bool, std::int64_t, Cost> now{costs[x] >= kForbidden, usage, costs[x]};
      if (x > 0 && now >= best) continue;
      best = now;
      assignment[ix(v)] = static_cast<std::int32_t>(x);
    }
  }
  return assignment;
}

}  // namespace autopar::engine
