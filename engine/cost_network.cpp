#include "engine/cost_network.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/index.h"

namespace autopar::engine {
std::vector<std::int32_t> states_of(const Projection& projection) {
  std::vector<std::int32_t> states = projection;
  std::ranges::sort(states);
  states.erase(std::unique(states.begin(), states.end()), states.end());
  return states;
}

Domain with_costs(const Domain& domain, const Projection& projection, const std::vector<Cost>& of_state) {
  Domain sum = domain;
  for (std::size_t x = 0; x < sum.costs.size(); ++x) sum.costs[x] = add(sum.costs[x], of_state[ix(projection[x])]);
  return sum;
}

std::vector<std::vector<std::int32_t>> split_by_levels(const std::vector<std::vector<std::int32_t>>& levels,
                                                       const std::vector<std::int32_t>& values) {
  std::vector<std::vector<std::int32_t>> parts;
  for (const std::vector<std::int32_t>& level : levels) {
    std::map<std::int32_t, std::vector<std::int32_t>> groups;
    for (std::int32_t x : values) groups[level[ix(x)]].push_back(x);
    if (groups.size() < 2) continue;
    for (auto& [group, members] : groups) parts.push_back(std::move(members));
    return parts;
  }
  for (std::int32_t x : values) parts.push_back({x});
  return parts;
}

std::int64_t usage_at(const CostNetwork& network, const Assignment& assignment, std::int32_t time) {
  std::int64_t sum = ix(time) < network.base_usage.size() ? network.base_usage[ix(time)] : 0;
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    const std::vector<Span>& spans = network.variables[ix(v)].spans;
    for (std::size_t s = 0; s < spans.size(); ++s) {
      if (spans[s].start <= time && time < spans[s].end) sum += network.domain(v).usage[s][ix(assignment[ix(v)])];
    }
  }
  return sum;
}

std::int64_t peak_usage(const CostNetwork& network, const Assignment& assignment) {
  // Usage only rises where some span starts.
  std::vector<std::pair<std::int32_t, std::int64_t>> changes;  // (time, +/- usage)
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    const Domain& domain = network.domain(v);
    const Variable& variable = network.variables[ix(v)];
    for (std::size_t s = 0; s < domain.usage.size(); ++s) {
      if (variable.spans[s].start >= variable.spans[s].end) continue;
      const std::int64_t usage = domain.usage[s][ix(assignment[ix(v)])];
      changes.emplace_back(variable.spans[s].start, usage);
      changes.emplace_back(variable.spans[s].end, -usage);
    }
  }
  for (std::size_t t = 0; t < network.base_usage.size(); ++t) {
    changes.emplace_back(static_cast<std::int32_t>(t), network.base_usage[t]);
    changes.emplace_back(static_cast<std::int32_t>(t) + 1, -network.base_usage[t]);
  }
  // At one time point what ends goes before what starts: lives are half-open.
  std::sort(changes.begin(), changes.end());
  std::int64_t now = 0;
  std::int64_t peak = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    now += changes[i].second;
    if (i + 1 == changes.size() || changes[i + 1].first != changes[i].first) peak = std::max(peak, now);
  }
  return peak;
}

Cost evaluate(const CostNetwork& network, const Assignment& assignment) {
  Wide total = 0;
  for (std::int32_t v = 0; v < network.num_variables(); ++v) total += network.domain(v).costs[ix(assignment[ix(v)])];
  for (const Edge& edge : network.edges) {
    const std::int32_t row = network.projections[ix(edge.project_u)][ix(assignment[ix(edge.u)])];
    const std::int32_t col = network.projections[ix(edge.project_v)][ix(assignment[ix(edge.v)])];
    total += network.tables[ix(edge.table)].at(row, col);
  }
  if (total >= kForbidden) return kForbidden;
  if (network.usage_limit >= 0 && peak_usage(network, assignment) > network.usage_limit) return kForbidden;
  return static_cast<Cost>(total);
}

}  // namespace autopar::engine
