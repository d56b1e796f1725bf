#include "engine/presolve.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "engine/index.h"
#include "engine/vectorise.h"

namespace autopar::engine {
namespace {

/// A new table may have this many entries at most. Above, eliminating a variable costs more than it saves.
constexpr std::int64_t kMaxTable = 1 << 13;
constexpr std::int64_t kWorkOfVisit = 6000;  // memos seldom lie in a cache
/// Variables with at most so many neighbours go before the others.
constexpr std::size_t kDegrees[] = {0, 1, 2, 8, 64, std::numeric_limits<std::size_t>::max()};

/// The least of bad[i] - good[i], at most kForbidden / 1024; hugely negative if good is forbidden where bad is not.
/// Without branches, so that it is vectorised.
AUTOPAR_VECTORISED Cost least_difference(const Cost* bad, const Cost* good, std::size_t width) {
  Cost least = kForbidden / 1024;
  for (std::size_t i = 0; i < width; ++i) {
    const Cost difference = bad[i] >= kForbidden ? kForbidden : bad[i] - good[i];
    least = difference < least ? difference : least;
  }
  return least;
}

/// Collects which items of a list are still needed, in order of first need.
class Kept {
 public:
  explicit Kept(std::size_t size) : new_index_(size, -1) {}

  /// Makes `index` what it is in the collection.
  void keep(std::int32_t& index) {
    std::int32_t& new_index = new_index_[ix(index)];
    if (new_index < 0) {
      new_index = static_cast<std::int32_t>(kept_.size());
      kept_.push_back(index);
    }
    index = new_index;
  }

  /// Starts a new collection.
  std::vector<std::int32_t> take() {
    std::ranges::fill(new_index_, -1);
    return std::exchange(kept_, {});
  }

 private:
  std::vector<std::int32_t> new_index_;
  std::vector<std::int32_t> kept_;
};

/// Takes two collections out of a list. Only what is in both is there twice.
template <class T>
std::pair<std::vector<T>, std::vector<T>> taken(std::vector<T> all, const std::vector<std::int32_t>& first,
                                                const std::vector<std::int32_t>& second) {
  std::vector<char> is_in_second(all.size(), 0);
  for (std::int32_t i : second) is_in_second[ix(i)] = 1;
  std::pair<std::vector<T>, std::vector<T>> made;
  made.first.reserve(first.size());
  made.second.reserve(second.size());
  for (std::int32_t i : first) made.first.push_back(is_in_second[ix(i)] ? all[ix(i)] : std::move(all[ix(i)]));
  for (std::int32_t i : second) made.second.push_back(std::move(all[ix(i)]));
  return made;
}

std::pair<Tables, Tables> taken(const Tables& all, const std::vector<std::int32_t>& first,
                                const std::vector<std::int32_t>& second) {
  std::pair<Tables, Tables> made;
  for (std::int32_t i : first) made.first.push_back(all.shared(ix(i)));
  for (std::int32_t i : second) made.second.push_back(all.shared(ix(i)));
  return made;
}

}  // namespace

Presolve::Presolve(CostNetwork network, const PresolveSteps& steps) : steps_(steps), net_(std::move(network)) {
  start(all_values(net_));
}

Presolve::Presolve(CostNetwork network, const LiveValues& live, const PresolveSteps& steps)
    : steps_(steps), net_(std::move(network)) {
  start(live);
}

void Presolve::start(const LiveValues& live) {
  num_original_ = net_.variables.size();
  work_.edges_of.resize(num_original_);
  work_.edge_alive.assign(net_.edges.size(), 1);
  work_.variable_alive.assign(num_original_, 1);
  work_.awake.assign(num_original_, 1);
  values_.assign(num_original_, -1);
  for (std::size_t e = 0; e < net_.edges.size(); ++e) {
    work_.edges_of[ix(net_.edges[e].u)].push_back(static_cast<std::int32_t>(e));
    work_.edges_of[ix(net_.edges[e].v)].push_back(static_cast<std::int32_t>(e));
  }
  take_usage();
  for (std::int32_t v = 0; v < net_.num_variables(); ++v) {
    if (live[ix(v)].empty()) infeasible_ = true;
    if (live[ix(v)].size() < ix(net_.domain(v).size())) keep_values(v, live[ix(v)], views(v));
  }
  if (!infeasible_) run();
}

void Presolve::run() {
  // Variables with few neighbours first: that keeps tables small, and what equals a hub becomes part of it, not the hub
  // of that. Within a pass variables go in index order, so that the copies of a repeated layer, which have the same
  // relative order, are treated alike.
  do {
    for (std::size_t level = 0; level < std::size(kDegrees) && !infeasible_; ++level) {
      bool changed = false;
      for (std::size_t v = 0; v < num_original_ && !infeasible_ && !is_spent(); ++v) {
        if (!work_.variable_alive[v] || !work_.awake[v] || work_.edges_of[v].size() > kDegrees[level]) continue;
        work_.awake[v] = 0;
        changed |= reduce_variable(static_cast<std::int32_t>(v));
      }
      if (changed && !is_spent()) level = std::size_t{0} - 1;
    }
  } while (!infeasible_ && !is_spent() && steps_.usage && reduce_usage());
  if (infeasible_) return;
  for (std::size_t v = 0; v < num_original_ && is_spent(); ++v) {
    if (work_.variable_alive[v]) merge_parallel(static_cast<std::int32_t>(v));
  }
  give_usage_back();
  compact();
}

bool Presolve::reduce_variable(std::int32_t variable) {
  work_.done += kWorkOfVisit;
  bool changed = merge_parallel(variable);
  changed |= remove_values(variable);
  if (!infeasible_ && steps_.fold) changed |= fold(variable);
  if (!infeasible_ && steps_.eliminate && eliminate(variable)) return true;
  if (!infeasible_ && steps_.contract) changed |= contract(variable);
  return changed;
}

bool Presolve::merge_parallel(std::int32_t variable) {
  std::vector<std::pair<std::int32_t, std::int32_t>> around;  // (neighbour, edge)
  for (const View& v : views(variable)) around.emplace_back(v.other, v.edge);
  std::ranges::sort(around);
  bool changed = false;
  for (std::size_t i = 1; i < around.size(); ++i) {
    if (around[i].first != around[i - 1].first) continue;
    merge_edges(around[i - 1].second, around[i].second);
    around[i].second = around[i - 1].second;
    ++counts_.merged_edges;
    changed = true;
  }
  return changed;
}

Presolve::View Presolve::view(std::int32_t edge, std::int32_t variable) const {
  const Edge& e = net_.edges[ix(edge)];
  if (e.u == variable) return {edge, e.v, e.table, e.project_u, e.project_v, true};
  return {edge, e.u, e.table, e.project_v, e.project_u, false};
}

std::vector<Presolve::View> Presolve::views(std::int32_t variable) const {
  std::vector<View> found;
  for (std::int32_t edge : work_.edges_of[ix(variable)]) found.push_back(view(edge, variable));
  return found;
}

Cost Presolve::cost(const View& view, std::int32_t self_state, std::int32_t other_state) const {
  return cost(net_, view, self_state, other_state);
}

Cost Presolve::cost(const CostNetwork& network, const View& view, std::int32_t self_state, std::int32_t other_state) {
  const Table& table = network.tables[ix(view.table)];
  return view.self_is_row ? table.at(self_state, other_state) : table.at(other_state, self_state);
}

std::int32_t Presolve::num_states(std::int32_t table, bool rows) const {
  return rows ? net_.tables[ix(table)].rows : net_.tables[ix(table)].cols;
}

bool Presolve::eliminate(std::int32_t variable) {
  if (!work_.uses[ix(variable)].empty()) return false;
  const std::vector<View> around = views(variable);
  if (around.size() > 2) return false;
  Eliminated step{variable, net_.variables[ix(variable)].domain, values_[ix(variable)], {}, {-1, -1}, 0, -1};
  for (const View& neighbour : around) {
    step.views[ix(step.num_views)] = neighbour;
    step.other_values[ix(step.num_views)] = values_[ix(neighbour.other)];
    ++step.num_views;
  }
  if (around.empty()) {
    const std::vector<Cost>& costs = net_.domain(variable).costs;
    constant_ = add(constant_, *std::min_element(costs.begin(), costs.end()));
  } else if (around.size() == 1) {
    eliminate_leaf(variable, around[0]);
  } else if (!eliminate_link(variable, around[0], around[1])) {
    return false;
  }
  for (const View& neighbour : around) {
    kill_edge(neighbour.edge);
    wake(neighbour.other);
  }
  work_.variable_alive[ix(variable)] = 0;
  eliminated_.push_back(step);
  ++counts_.eliminated;
  return true;
}

void Presolve::eliminate_leaf(std::int32_t variable, const View& view) {
  const std::int32_t leaf = net_.variables[ix(variable)].domain;
  std::int32_t& target = net_.variables[ix(view.other)].domain;
  const Key key{leaf, view.table, view.self_project, view.other_project, view.self_is_row, target};
  const auto [entry, is_new] = work_.leaf_memo.try_emplace(key, -1);
  if (is_new) {
    const std::vector<Cost>& costs = net_.domains[ix(leaf)].costs;
    const Projection& self = net_.projections[ix(view.self_project)];
    const Projection& other = net_.projections[ix(view.other_project)];
    std::vector<Cost> message(ix(num_states(view.table, !view.self_is_row)), kForbidden);
    for (std::size_t x = 0; x < costs.size(); ++x) {
      for (std::size_t b = 0; b < message.size(); ++b) {
        message[b] = std::min(message[b], add(costs[x], cost(view, self[x], static_cast<std::int32_t>(b))));
      }
    }
    Domain grown = with_costs(net_.domains[ix(target)], other, message);
    entry->second = static_cast<std::int32_t>(net_.domains.size());
    net_.domains.push_back(std::move(grown));
  }
  target = entry->second;
}

bool Presolve::eliminate_link(std::int32_t variable, const View& a, const View& b) {
  const std::int32_t rows = num_states(a.table, !a.self_is_row);
  const std::int32_t cols = num_states(b.table, !b.self_is_row);
  if (std::int64_t{rows} * cols > kMaxTable) return false;
  const std::int32_t link = net_.variables[ix(variable)].domain;
  const Key key{link, a.table, a.self_project, a.self_is_row, b.table, b.self_project, b.self_is_row};
  const auto [entry, is_new] = work_.link_memo.try_emplace(key, -1);
  if (is_new) {
    const std::vector<Cost>& costs = net_.domains[ix(link)].costs;
    const Projection& to_a = net_.projections[ix(a.self_project)];
    const Projection& to_b = net_.projections[ix(b.self_project)];
    Table table{rows, cols, std::vector<Cost>(ix(rows) * ix(cols), kForbidden)};
    std::vector<Cost> right(ix(cols));
    work_.done += static_cast<std::int64_t>(table.costs.size() * costs.size());
    for (std::size_t x = 0; x < costs.size(); ++x) {
      for (std::int32_t col = 0; col < cols; ++col) right[ix(col)] = cost(b, to_b[x], col);
      for (std::int32_t row = 0; row < rows; ++row) {
        const Cost left = add(costs[x], cost(a, to_a[x], row));
        Cost* out = table.costs.data() + ix(row) * ix(cols);
        for (std::size_t col = 0; col < right.size(); ++col) out[col] = std::min(out[col], left + right[col]);
      }
    }
    entry->second = static_cast<std::int32_t>(net_.tables.size());
    net_.tables.push_back(std::move(table));
  }
  const auto edge = static_cast<std::int32_t>(net_.edges.size());
  net_.edges.push_back({a.other, b.other, entry->second, a.other_project, b.other_project});
  work_.edge_alive.push_back(1);
  work_.edges_of[ix(a.other)].push_back(edge);
  work_.edges_of[ix(b.other)].push_back(edge);
  return true;
}

void Presolve::merge_edges(std::int32_t first, std::int32_t second) {
  const std::int32_t u = net_.edges[ix(first)].u;
  const View a = view(first, u);
  const View b = view(second, u);
  const Key key{a.table, a.self_project, a.other_project, b.table, b.self_project, b.other_project, b.self_is_row};
  const auto [entry, is_new] = work_.merge_memo.try_emplace(key);
  if (is_new) {
    // The states of the merged edge are the pairs of states that some value has.
    const auto pair_up = [this](std::int32_t one, std::int32_t two, std::vector<std::array<std::int32_t, 2>>& pairs) {
      const Projection& p = net_.projections[ix(one)];
      const Projection& q = net_.projections[ix(two)];
      std::map<std::array<std::int32_t, 2>, std::int32_t> seen;
      Projection merged;
      for (std::size_t x = 0; x < p.size(); ++x) {
        const auto [where, fresh] = seen.try_emplace({p[x], q[x]}, static_cast<std::int32_t>(pairs.size()));
        if (fresh) pairs.push_back({p[x], q[x]});
        merged.push_back(where->second);
      }
      net_.projections.push_back(std::move(merged));
      return static_cast<std::int32_t>(net_.projections.size()) - 1;
    };
    std::vector<std::array<std::int32_t, 2>> rows;
    std::vector<std::array<std::int32_t, 2>> cols;
    const std::int32_t project_u = pair_up(a.self_project, b.self_project, rows);
    const std::int32_t project_v = pair_up(a.other_project, b.other_project, cols);
    Table table{static_cast<std::int32_t>(rows.size()), static_cast<std::int32_t>(cols.size()), {}};
    table.costs.reserve(rows.size() * cols.size());
    work_.done += static_cast<std::int64_t>(rows.size() * cols.size());
    for (const auto& row : rows) {
      for (const auto& col : cols) table.costs.push_back(add(cost(a, row[0], col[0]), cost(b, row[1], col[1])));
    }
    net_.tables.push_back(std::move(table));
    entry->second = {static_cast<std::int32_t>(net_.tables.size()) - 1, project_u, project_v};
  }
  Edge& kept = net_.edges[ix(first)];
  kept.table = entry->second[0];
  kept.project_u = entry->second[1];
  kept.project_v = entry->second[2];
  kill_edge(second);
  wake(a.other);
}

bool Presolve::remove_values(std::int32_t variable) {
  const std::vector<View> around = views(variable);
  const std::int32_t domain = net_.variables[ix(variable)].domain;
  Key key{domain, static_cast<std::int32_t>(around.size())};
  for (const View& v : around) {
    key.insert(key.end(), {v.table, v.self_project, v.other_project, v.self_is_row});
  }
  for (const Use& use : work_.uses[ix(variable)]) key.push_back(use.row);
  const auto [entry, is_new] = work_.survivor_memo.try_emplace(std::move(key));
  if (is_new) entry->second = surviving_values(variable, around);
  const Survivors& survivors = entry->second;
  const std::size_t removed = net_.domains[ix(domain)].costs.size() - survivors.kept.size();
  counts_.dead_values += survivors.num_dead;
  counts_.dominated_values += static_cast<std::int64_t>(removed) - survivors.num_dead;
  if (survivors.kept.empty()) infeasible_ = true;
  if (infeasible_ || removed == 0) return false;
  keep_values(variable, survivors.kept, around);
  return true;
}

void Presolve::keep_values(std::int32_t variable, const std::vector<std::int32_t>& kept,
                           const std::vector<View>& around) {
  Variable& self = net_.variables[ix(variable)];
  self.domain = restrict_domain(self.domain, kept);
  values_[ix(variable)] = restrict_values(values_[ix(variable)], kept);
  for (Use& use : work_.uses[ix(variable)]) use.row = restrict_row(use.row, kept);
  for (const View& v : around) {
    Edge& edge = net_.edges[ix(v.edge)];
    std::int32_t& projection = v.self_is_row ? edge.project_u : edge.project_v;
    projection = restrict_projection(projection, kept);
    wake(v.other);
  }
}

Presolve::Rows Presolve::rows_of(const View& view) const {
  Rows rows;
  rows.row_of = &net_.projections[ix(view.self_project)];
  const std::vector<std::int32_t> states = states_of(net_.projections[ix(view.other_project)]);
  rows.width = states.size();
  for (std::int32_t row = 0; row < num_states(view.table, view.self_is_row); ++row) {
    for (std::int32_t state : states) rows.costs.push_back(cost(view, row, state));
    const auto begin = rows.costs.end() - static_cast<std::ptrdiff_t>(rows.width);
    rows.cheapest.push_back(static_cast<std::size_t>(std::min_element(begin, rows.costs.end()) - begin));
  }
  return rows;
}

Presolve::Survivors Presolve::surviving_values(std::int32_t variable, const std::vector<View>& views) {
  const Domain& domain = net_.domain(variable);
  std::vector<Rows> edges;
  for (const View& v : views) {
    edges.push_back(rows_of(v));
    work_.done += static_cast<std::int64_t>(edges.back().costs.size());
  }
  Survivors survivors;
  std::vector<std::int32_t>& kept = survivors.kept;
  for (std::int32_t x = 0; x < domain.size(); ++x) {
    if (!is_dead(domain, x, edges)) kept.push_back(x);
  }
  survivors.num_dead = domain.size() - static_cast<std::int32_t>(kept.size());
  if (!steps_.dominate) return survivors;
  constexpr std::size_t kWorkOfLook = 4;  // of each pair of values at each edge: seldom more than a look
  work_.done += static_cast<std::int64_t>(kWorkOfLook * kept.size() * kept.size() * edges.size());
  // Earlier values win ties, so of equals exactly one stays.
  for (std::size_t i = 0; i < kept.size();) {
    const bool dominated = std::any_of(kept.begin(), kept.end(), [&](std::int32_t other) {
      return other != kept[i] && dominates(variable, other, kept[i], edges);
    });
    if (dominated) {
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return survivors;
}

bool Presolve::is_dead(const Domain& domain, std::int32_t value, const std::vector<Rows>& edges) {
  if (domain.costs[ix(value)] >= kForbidden) return true;
  return std::any_of(edges.begin(), edges.end(), [&](const Rows& edge) {
    const Cost* row = edge.row(edge.index(value));
    return std::all_of(row, row + edge.width, [](Cost cost) { return cost >= kForbidden; });
  });
}

bool Presolve::dominates(std::int32_t variable, std::int32_t better, std::int32_t worse,
                         const std::vector<Rows>& edges) const {
  const Domain& domain = net_.domain(variable);
  bool uses_less = false;
  for (const Use& use : work_.uses[ix(variable)]) {
    const std::vector<std::int64_t>& usage = work_.rows[ix(use.row)];
    if (usage[ix(better)] > usage[ix(worse)]) return false;
    uses_less |= usage[ix(better)] < usage[ix(worse)];
  }
  // Where the worse one is cheapest it is hardest to beat: one look there rejects nearly all.
  Cost slack = domain.costs[ix(worse)] - domain.costs[ix(better)];
  const auto difference_where_cheapest = [&](const Rows& edge) {
    const std::size_t bad = edge.index(worse);
    const std::size_t column = edge.cheapest[bad];
    return edge.row(bad)[column] - edge.row(edge.index(better))[column];
  };
  for (const Rows& edge : edges) {
    slack += difference_where_cheapest(edge);
    if (slack < -kForbidden / 2) return false;
  }
  for (const Rows& edge : edges) {
    if (slack < 0) return false;
    const Cost* good = edge.row(edge.index(better));
    const Cost* bad = edge.row(edge.index(worse));
    if (good != bad) slack += least_difference(bad, good, edge.width) - difference_where_cheapest(edge);
  }
  return slack > 0 || (slack == 0 && (better < worse || uses_less));
}

std::int32_t Presolve::restrict_domain(std::int32_t domain, const std::vector<std::int32_t>& kept) {
  Key key{domain};
  key.insert(key.end(), kept.begin(), kept.end());
  const auto [entry, is_new] = work_.domain_memo.try_emplace(key, -1);
  if (is_new) {
    const Domain& from = net_.domains[ix(domain)];
    Domain to;
    to.levels.resize(from.levels.size());
    for (std::int32_t x : kept) {
      to.costs.push_back(from.costs[ix(x)]);
      for (std::size_t l = 0; l < from.levels.size(); ++l) to.levels[l].push_back(from.levels[l][ix(x)]);
    }
    entry->second = static_cast<std::int32_t>(net_.domains.size());
    net_.domains.push_back(std::move(to));
  }
  return entry->second;
}

std::int32_t Presolve::restrict_projection(std::int32_t projection, const std::vector<std::int32_t>& kept) {
  Key key{projection};
  key.insert(key.end(), kept.begin(), kept.end());
  const auto [entry, is_new] = work_.projection_memo.try_emplace(key, -1);
  if (is_new) {
    Projection to;
    for (std::int32_t x : kept) to.push_back(net_.projections[ix(projection)][ix(x)]);
    entry->second = static_cast<std::int32_t>(net_.projections.size());
    net_.projections.push_back(std::move(to));
  }
  return entry->second;
}

std::int32_t Presolve::restrict_values(std::int32_t values, const std::vector<std::int32_t>& kept) {
  Key key{values};
  key.insert(key.end(), kept.begin(), kept.end());
  const auto [entry, is_new] = work_.values_memo.try_emplace(key, -1);
  if (is_new) {
    std::vector<std::int32_t> to;
    for (std::int32_t x : kept) to.push_back(values < 0 ? x : value_lists_[ix(values)][ix(x)]);
    entry->second = static_cast<std::int32_t>(value_lists_.size());
    value_lists_.push_back(std::move(to));
  }
  return entry->second;
}

void Presolve::kill_edge(std::int32_t edge) {
  work_.edge_alive[ix(edge)] = 0;
  for (std::int32_t end : {net_.edges[ix(edge)].u, net_.edges[ix(edge)].v}) {
    std::erase(work_.edges_of[ix(end)], edge);
  }
}

void Presolve::wake(std::int32_t variable) { work_.awake[ix(variable)] = 1; }

void Presolve::compact() {
  std::vector<std::int32_t> position(num_original_, -1);
  std::vector<Variable> variables;
  for (std::size_t v = 0; v < num_original_; ++v) {
    if (!work_.variable_alive[v]) continue;
    position[v] = static_cast<std::int32_t>(variables.size());
    remaining_.push_back(static_cast<std::int32_t>(v));
    variables.push_back(net_.variables[v]);
  }
  std::vector<Edge> edges;
  for (std::size_t e = 0; e < net_.edges.size(); ++e) {
    if (!work_.edge_alive[e]) continue;
    Edge edge = net_.edges[e];
    edge.u = position[ix(edge.u)];
    edge.v = position[ix(edge.v)];
    edges.push_back(edge);
  }
  net_.variables = std::move(variables);
  net_.edges = std::move(edges);
  work_ = {};
  keep_what_is_read();
}

/// Of domains, tables and projections: those of the reduced network, and apart from them those that restoring needs.
void Presolve::keep_what_is_read() {
  Kept domains(net_.domains.size());
  Kept tables(net_.tables.size());
  Kept projections(net_.projections.size());
  for (Eliminated& step : eliminated_) {
    if (step.follows >= 0) continue;
    domains.keep(step.domain);
    for (int i = 0; i < step.num_views; ++i) {
      View& view = step.views[ix(i)];
      tables.keep(view.table);
      projections.keep(view.self_project);
      projections.keep(view.other_project);
    }
  }
  const std::vector<std::int32_t> domains_to_restore = domains.take();
  const std::vector<std::int32_t> tables_to_restore = tables.take();
  const std::vector<std::int32_t> projections_to_restore = projections.take();
  for (Variable& variable : net_.variables) domains.keep(variable.domain);
  for (Edge& edge : net_.edges) {
    tables.keep(edge.table);
    projections.keep(edge.project_u);
    projections.keep(edge.project_v);
  }
  std::tie(read_by_eliminated_.domains, net_.domains) =
      taken(std::move(net_.domains), domains_to_restore, domains.take());
  std::tie(read_by_eliminated_.tables, net_.tables) = taken(net_.tables, tables_to_restore, tables.take());
  std::tie(read_by_eliminated_.projections, net_.projections) =
      taken(std::move(net_.projections), projections_to_restore, projections.take());
}

Assignment Presolve::restore(const Assignment& reduced) const {
  const auto original_value = [this](std::int32_t values, std::int32_t x) {
    return values < 0 ? x : value_lists_[ix(values)][ix(x)];
  };
  Assignment original(num_original_, -1);
  for (std::size_t i = 0; i < remaining_.size(); ++i) {
    const std::int32_t v = remaining_[i];
    original[ix(v)] = original_value(values_[ix(v)], reduced[i]);
  }
  for (auto step = eliminated_.rbegin(); step != eliminated_.rend(); ++step) {
    original[ix(step->variable)] = original_value(step->values, best_value(*step, original));
  }
  return original;
}

Assignment Presolve::reduce(const Assignment& original) const {
  Assignment reduced;
  for (std::int32_t v : remaining_) {
    std::int32_t value = original[ix(v)];
    if (const std::int32_t list = values_[ix(v)]; list >= 0) {
      const std::vector<std::int32_t>& values = value_lists_[ix(list)];
      const auto at = std::ranges::lower_bound(values, value);
      value = at != values.end() && *at == value ? static_cast<std::int32_t>(at - values.begin()) : -1;
    }
    reduced.push_back(value);
  }
  return reduced;
}

std::int32_t Presolve::best_value(const Eliminated& step, const Assignment& original) const {
  std::array<std::int32_t, 2> other_state{};
  for (int i = 0; i < step.num_views; ++i) {
    const View& v = step.views[ix(i)];
    std::int32_t value = original[ix(v.other)];
    if (const std::int32_t list = step.other_values[ix(i)]; list >= 0) {
      const std::vector<std::int32_t>& values = value_lists_[ix(list)];
      value = static_cast<std::int32_t>(std::lower_bound(values.begin(), values.end(), value) - values.begin());
    }
    other_state[ix(i)] = step.follows >= 0 ? value : read_by_eliminated_.projections[ix(v.other_project)][ix(value)];
  }
  if (step.follows >= 0) return maps_[ix(step.follows)][ix(other_state[0])];
  const std::vector<Cost>& costs = read_by_eliminated_.domains[ix(step.domain)].costs;
  std::int32_t best = 0;
  Cost best_cost = kForbidden;
  for (std::int32_t x = 0; x < static_cast<std::int32_t>(costs.size()); ++x) {
    Cost total = costs[ix(x)];
    for (int i = 0; i < step.num_views; ++i) {
      const View& v = step.views[ix(i)];
      total = add(total, cost(read_by_eliminated_, v, read_by_eliminated_.projections[ix(v.self_project)][ix(x)],
                              other_state[ix(i)]));
    }
    if (total < best_cost) {
      best_cost = total;
      best = x;
    }
  }
  return best;
}

}  // namespace autopar::engine
