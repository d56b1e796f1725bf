#include "engine/core.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include "engine/index.h"

namespace autopar::engine {

LiveValues all_values(const CostNetwork& network) {
  LiveValues live(network.variables.size());
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    live[ix(v)].resize(ix(network.domain(v).size()));
    std::iota(live[ix(v)].begin(), live[ix(v)].end(), 0);
  }
  return live;
}

Core::Core(const CostNetwork& network, const LiveValues& live) : variables_(network.variables.size()) {
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    CoreVariable& variable = variables_[ix(v)];
    for (std::int32_t x : live[ix(v)]) variable.costs.push_back(network.domain(v).costs[ix(x)]);
  }
  for (std::size_t e = 0; e < network.edges.size(); ++e) add_edge(network, static_cast<std::int32_t>(e), live);
  for (CoreVariable& variable : variables_) {
    if (variable.costs.size() == 1) {
      constant_ = add(constant_, variable.costs[0]);
      variable.costs[0] = 0;
    }
  }
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    variables_[ix(edges_[e].u.variable)].edges.push_back(static_cast<std::int32_t>(e));
    variables_[ix(edges_[e].v.variable)].edges.push_back(static_cast<std::int32_t>(e));
  }
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    std::vector<std::int32_t>& around = variables_[ix(v)].edges;
    std::sort(around.begin(), around.end(), [&](std::int32_t a, std::int32_t b) {
      return std::pair(other_end(a, v).variable, a) < std::pair(other_end(b, v).variable, b);
    });
  }
  set_usage_points(network, live);
}

const CoreEnd& Core::end(std::int32_t edge, std::int32_t variable) const {
  const CoreEdge& e = edges_[ix(edge)];
  return e.u.variable == variable ? e.u : e.v;
}

const CoreEnd& Core::other_end(std::int32_t edge, std::int32_t variable) const {
  const CoreEdge& e = edges_[ix(edge)];
  return e.u.variable == variable ? e.v : e.u;
}

const Core::Compacted& Core::compact(const CostNetwork& network, std::int32_t projection,
                                     const std::vector<std::int32_t>& live) {
  const auto [entry, is_new] = compacted_.try_emplace({projection, live});
  if (is_new) {
    const Projection& all = network.projections[ix(projection)];
    Projection states;
    for (std::int32_t x : live) states.push_back(all[ix(x)]);
    std::sort(states.begin(), states.end());
    states.erase(std::unique(states.begin(), states.end()), states.end());
    Projection state_of;
    for (std::int32_t x : live) {
      const auto where = std::lower_bound(states.begin(), states.end(), all[ix(x)]);
      state_of.push_back(static_cast<std::int32_t>(where - states.begin()));
    }
    entry->second.state_of = std::make_shared<const Projection>(std::move(state_of));
    entry->second.states = std::make_shared<const Projection>(std::move(states));
  }
  return entry->second;
}

std::shared_ptr<const CoreTable> Core::restrict_table(const CostNetwork& network, std::int32_t table,
                                                      const Projection& rows, const Projection& cols) {
  std::vector<std::int32_t> key{table, static_cast<std::int32_t>(rows.size())};
  key.insert(key.end(), rows.begin(), rows.end());
  key.insert(key.end(), cols.begin(), cols.end());
  const auto [entry, is_new] = tables_.try_emplace(std::move(key));
  if (is_new) {
    auto made = std::make_shared<CoreTable>();
    made->rows = static_cast<std::int32_t>(rows.size());
    made->cols = static_cast<std::int32_t>(cols.size());
    const Table& whole = network.tables[ix(table)];
    made->by_row.reserve(rows.size() * cols.size());
    made->by_col.resize(rows.size() * cols.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t c = 0; c < cols.size(); ++c) {
        const Cost cost = std::min(whole.at(rows[r], cols[c]), kForbidden);
        made->by_row.push_back(cost);
        made->by_col[c * rows.size() + r] = cost;
      }
    }
    entry->second = std::move(made);
  }
  return entry->second;
}

void Core::add_edge(const CostNetwork& network, std::int32_t source, const LiveValues& live) {
  const Edge& edge = network.edges[ix(source)];
  const std::vector<std::int32_t>& live_u = live[ix(edge.u)];
  const std::vector<std::int32_t>& live_v = live[ix(edge.v)];
  const Table& table = network.tables[ix(edge.table)];
  const Projection& project_u = network.projections[ix(edge.project_u)];
  const Projection& project_v = network.projections[ix(edge.project_v)];
  if (live_u.size() == 1 || live_v.size() == 1) {
    // A decided end turns the edge into a cost on the other one.
    const bool u_decided = live_u.size() == 1;
    CoreVariable& open = variables_[ix(u_decided ? edge.v : edge.u)];
    const std::vector<std::int32_t>& values = u_decided ? live_v : live_u;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Cost cost = u_decided ? table.at(project_u[ix(live_u[0])], project_v[ix(values[i])])
                                  : table.at(project_u[ix(values[i])], project_v[ix(live_v[0])]);
      open.costs[i] = add(open.costs[i], std::min(cost, kForbidden));
    }
    return;
  }
  const Compacted& rows = compact(network, edge.project_u, live_u);
  const Compacted& cols = compact(network, edge.project_v, live_v);
  edges_.push_back({{edge.u, rows.state_of, rows.states},
                    {edge.v, cols.state_of, cols.states},
                    restrict_table(network, edge.table, *rows.states, *cols.states),
                    source});
}

namespace {

/// What `domain` uses with `value` at time `time`.
std::int64_t usage_at(const Domain& domain, const Variable& variable, std::int32_t time, std::int32_t value) {
  std::int64_t sum = 0;
  for (std::size_t s = 0; s < domain.usage.size(); ++s) {
    if (variable.spans[s].start <= time && time < variable.spans[s].end) sum += domain.usage[s][ix(value)];
  }
  return sum;
}

/// A time point. Variables are open there if their live values differ in usage.
struct Point {
  std::int32_t time = 0;
  std::int64_t base = 0;   ///< least usage of all variables
  std::int64_t extra = 0;  ///< the most that open ones can add
  std::vector<std::int32_t> open;
};

Point make_point(const CostNetwork& network, const LiveValues& live, const std::vector<std::int32_t>& users,
                 std::int32_t time) {
  Point point{time, 0, 0, {}};
  for (std::int32_t v : users) {
    const Variable& variable = network.variables[ix(v)];
    const auto is_live = [&](const Span& span) { return span.start <= time && time < span.end; };
    if (std::none_of(variable.spans.begin(), variable.spans.end(), is_live)) continue;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    std::int64_t most = 0;
    for (std::int32_t x : live[ix(v)]) {
      const std::int64_t usage = usage_at(network.domain(v), variable, time, x);
      least = std::min(least, usage);
      most = std::max(most, usage);
    }
    point.base += least;
    point.extra += most - least;
    if (most > least) point.open.push_back(v);
  }
  return point;
}

/// The points that can be exceeded, without those whose open variables are all open at another one with no more room.
///
/// Usage is highest just after some start. Decided variables and the least usage of open ones come off the limit, so a
/// point counts only if what is left could be exceeded.
std::vector<Point> usage_points(const CostNetwork& network, const LiveValues& live,
                                const std::vector<std::int32_t>& users) {
  std::set<std::int32_t> starts;
  for (std::int32_t v : users) {
    for (const Span& span : network.variables[ix(v)].spans) {
      if (span.start < span.end) starts.insert(span.start);
    }
  }
  std::vector<Point> points;
  for (std::int32_t time : starts) {
    Point point = make_point(network, live, users, time);
    if (point.base + point.extra > network.usage_limit) points.push_back(std::move(point));
  }
  std::vector<char> implied(points.size(), 0);
  for (std::size_t i = 0; i < points.size(); ++i) {
    // A variable may use different amounts at two points, so only equal users at both tell.
    for (std::size_t j = 0; j < points.size() && !implied[i]; ++j) {
      if (i == j || implied[j] || points[j].base < points[i].base) continue;
      implied[i] = std::all_of(points[i].open.begin(), points[i].open.end(), [&](std::int32_t v) {
        const Variable& variable = network.variables[ix(v)];
        const std::int32_t x0 = live[ix(v)][0];
        const std::int64_t at_i = usage_at(network.domain(v), variable, points[i].time, x0);
        const std::int64_t at_j = usage_at(network.domain(v), variable, points[j].time, x0);
        return std::all_of(live[ix(v)].begin(), live[ix(v)].end(), [&](std::int32_t x) {
          return usage_at(network.domain(v), variable, points[i].time, x) - at_i ==
                 usage_at(network.domain(v), variable, points[j].time, x) - at_j;
        });
      });
    }
  }
  std::vector<Point> kept;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!implied[i]) kept.push_back(std::move(points[i]));
  }
  return kept;
}

}  // namespace

void Core::set_usage_points(const CostNetwork& network, const LiveValues& live) {
  if (network.usage_limit < 0) return;
  std::vector<std::int32_t> users;
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    if (!network.domain(v).usage.empty()) users.push_back(v);
  }
  const std::vector<Point> points = usage_points(network, live, users);
  std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>> ranges;  // of points, by open variable
  for (std::size_t p = 0; p < points.size(); ++p) {
    capacity_.push_back(network.usage_limit - points[p].base);
    const auto point = static_cast<std::int32_t>(p);
    for (std::int32_t v : points[p].open) ranges.try_emplace(v, point, 0).first->second.second = point + 1;
  }
  for (const auto& [v, range] : ranges) {
    CoreVariable& open = variables_[ix(v)];
    std::tie(open.first_point, open.last_point) = range;
    const Variable& variable = network.variables[ix(v)];
    for (std::int32_t x : live[ix(v)]) {
      for (std::int32_t p = range.first; p < range.second; ++p) {
        open.usage.push_back(usage_at(network.domain(v), variable, points[ix(p)].time, x));
      }
    }
    take_off_least(open);
  }
}

/// The points' base counts what the variable uses anyway.
void Core::take_off_least(CoreVariable& open) {
  const auto points = ix(open.last_point - open.first_point);
  for (std::size_t p = 0; p < points; ++p) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = p; i < open.usage.size(); i += points) least = std::min(least, open.usage[i]);
    for (std::size_t i = p; i < open.usage.size(); i += points) open.usage[i] -= least;
  }
}

}  // namespace autopar::engine
