#include "engine/core.h"

#include <algorithm>
#include <utility>

#include "engine/index.h"

namespace autopar::engine {

Core::Core(const CostNetwork& network, const LiveValues& live, const Core* like) {
  build(network, live, network.edges, like);
  set_usage(network, live);
}

Core::Core(const CostNetwork& network, const LiveValues& live, const ShortNetwork& shortened) {
  build(network, live, shortened.edges, nullptr);
}

void Core::build(const CostNetwork& network, const LiveValues& live, const std::vector<Edge>& edges, const Core* like) {
  variables_.resize(network.variables.size());
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    CoreVariable& variable = variables_[ix(v)];
    for (std::int32_t x : live[ix(v)]) variable.costs.push_back(network.domain(v).costs[ix(x)]);
  }
  for (std::size_t e = 0; e < edges.size(); ++e) add_edge(network, edges[e], static_cast<std::int32_t>(e), live, like);
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
    states = states_of(states);
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

namespace {

/// Whether all states of `table` are in `rows` and `cols`, and no cost would be out of place in a sweep.
bool is_all(const Table& table, const Projection& rows, const Projection& cols) {
  return std::cmp_equal(rows.size(), table.rows) && std::cmp_equal(cols.size(), table.cols) &&
         std::ranges::all_of(table.costs, [](Cost cost) { return cost <= kForbidden; });
}

}  // namespace

const Core::LiveTable& Core::restrict_table(const CostNetwork& network, std::int32_t table, const Projection& rows,
                                            const Projection& cols, const Core* like) {
  std::vector<std::int32_t> key{table, static_cast<std::int32_t>(rows.size())};
  key.insert(key.end(), rows.begin(), rows.end());
  key.insert(key.end(), cols.begin(), cols.end());
  const auto [entry, is_new] = tables_.try_emplace(std::move(key));
  LiveTable& live = entry->second;
  if (!is_new) return live;
  if (like != nullptr) {
    const auto known = like->tables_.find(entry->first);
    if (known != like->tables_.end()) return live = known->second;
  }
  const Table& whole = network.tables[ix(table)];
  if (is_all(whole, rows, cols)) {
    live.exact = network.tables.shared(ix(table));
  } else {
    auto made = std::make_shared<Table>();
    made->rows = static_cast<std::int32_t>(rows.size());
    made->cols = static_cast<std::int32_t>(cols.size());
    made->costs.reserve(rows.size() * cols.size());
    for (const std::int32_t row : rows) {
      for (const std::int32_t col : cols) made->costs.push_back(std::min(whole.at(row, col), kForbidden));
    }
    live.exact = std::move(made);
  }
  if (live.exact->costs.size() >= CoarseTable::kFewestEntries) {
    live.coarse = std::make_shared<const CoarseTable>(*live.exact);
  }
  return live;
}

void Core::add_edge(const CostNetwork& network, const Edge& edge, std::int32_t source, const LiveValues& live,
                    const Core* like) {
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
  const LiveTable& live_table = restrict_table(network, edge.table, *rows.states, *cols.states, like);
  edges_.push_back({{edge.u, rows.state_of, rows.states},
                    {edge.v, cols.state_of, cols.states},
                    live_table.exact,
                    live_table.coarse,
                    source});
  table_entries_ += edges_.back().table->costs.size();
  is_coarse_ |= edges_.back().coarse != nullptr;
}

void Core::set_usage(const CostNetwork& network, const LiveValues& live) {
  UsagePoints points = usage_points(network, live);
  capacity_ = std::move(points.capacity);
  times_ = std::move(points.times);
  for (std::size_t v = 0; v < variables_.size(); ++v) variables_[v].usage = std::move(points.of[v]);
}

}  // namespace autopar::engine
