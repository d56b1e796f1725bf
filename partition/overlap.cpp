#include "partition/overlap.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "costs/compute.h"
#include "costs/views.h"
#include "engine/index.h"
#include "partition/segments.h"

namespace autopar::partition {
namespace {

using costs::Graph;
using costs::Node;
using costs::Phase;
using costs::RedistributeStep;
using costs::Role;

using engine::ix;

auto last_collective(const std::vector<RedistributeStep>& steps) {
  return std::find_if(steps.rbegin(), steps.rend(),
                      [](const RedistributeStep& step) { return costs::collective_of(step.kind).has_value(); });
}

}  // namespace

MatmulNeighbours::MatmulNeighbours(const Graph& graph, const std::vector<PhaseUses>& uses) {
  std::vector<char> gives(graph.nodes.size(), 0);  // what a matmul gives, also through views
  std::vector<char> reads(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool passes_on = costs::is_view(node.op) && !node.inputs.empty() && gives[ix(node.inputs[0].node)] != 0;
    gives[i] = costs::is_matmul(node.op) || passes_on ? 1 : 0;
    if (costs::is_matmul(node.op)) reads[i] = 1;
  }
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    if (reads[i] == 0) continue;
    for (const costs::ValueRef& input : graph.nodes[i].inputs) {
      if (costs::is_view(graph.nodes[ix(input.node)].op)) reads[ix(input.node)] = 1;
    }
  }
  for (const PhaseUses& one : uses) {
    is_behind_.push_back(gives[ix(one.value.node)]);
    is_before_.push_back(std::any_of(one.uses.begin(), one.uses.end(), [&](const Redistribution::Use& use) {
      return use.input >= 0 && reads[ix(use.node)] != 0;
    }));
  }
}

std::int64_t StepTime::total_ps() const {
  std::int64_t sum = exposed_ps + optimizer_ps;
  for (const WindowTime& window : windows) sum += window.compute_ps + window.uncovered_ps();
  return sum;
}

CommunicationTime communication_time(const std::vector<RedistributeStep>& steps, bool has_flight, bool is_behind_matmul,
                                     bool is_before_matmul, const costs::Device& device) {
  CommunicationTime time;
  const auto last = last_collective(steps);
  for (const RedistributeStep& step : steps) time.exposed_ps += step.time_ps;
  if (has_flight && last != steps.rend()) {
    time.exposed_ps -= last->time_ps;
    time.hideable_ps = last->time_ps;
    if (last->kind != RedistributeStep::Kind::kAllToAll) {
      time.bucket = {last->kind, last->mesh_dims};
      time.startup_ps = last->startup_ps;
      time.hideable_ps -= last->startup_ps;
    }
  } else if (steps.size() == 1 && ((steps[0].kind == RedistributeStep::Kind::kAllGather && is_before_matmul) ||
                                   (steps[0].kind == RedistributeStep::Kind::kReduceScatter && is_behind_matmul))) {
    time.exposed_ps = std::llround(static_cast<double>(time.exposed_ps) * (1 - device.matmul_overlap));
  }
  return time;
}

StepTime step_time(const Problem& problem, const Plan& plan) {
  const std::vector<PhaseUses> uses = collect_uses(problem.graph);
  const Windows windows(problem, uses);
  const MatmulNeighbours matmuls(problem.graph, uses);
  StepTime time;
  time.windows.resize(ix(windows.count()));
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const std::int32_t window = windows.of_node(static_cast<std::int32_t>(i));
    (window < 0 ? time.optimizer_ps : time.windows[ix(window)].compute_ps) += plan.nodes[i].compute_ps;
    time.exposed_ps += costs::total_ps(plan.nodes[i].all_reduces);
  }
  const UsesOfValues of_values = uses_of_values(uses);
  // By window, and whether of prefetches: the start-up.
  std::map<std::tuple<std::int32_t, bool, CommunicationTime::Bucket>, std::int64_t> buckets;
  for (const Redistribution& one : plan.redistributions) {
    // What is saved is for the backward's readers.
    const Phase phase = one.is_saved ? Phase::kBackward : one.phase;
    const std::int32_t entry = of_values.at({one.value.node, one.value.output}).in(phase);
    const CommunicationTime own = communication_time(one.steps, one.flight.exists(), matmuls.is_behind(entry),
                                                     matmuls.is_before(entry), problem.cluster.device);
    time.exposed_ps += own.exposed_ps;
    if (!one.flight.exists()) continue;
    const std::int32_t window = windows.hides_in(one.flight);
    WindowTime& hiding = time.windows[ix(window)];
    hiding.hideable_ps += own.hideable_ps;
    if (!own.bucket) continue;
    std::int64_t& startup_ps = buckets[{window, windows.is_prefetch(entry), *own.bucket}];
    startup_ps = std::max(startup_ps, own.startup_ps);
  }
  for (const auto& [bucket, startup_ps] : buckets) time.windows[ix(std::get<0>(bucket))].hideable_ps += startup_ps;
  return time;
}

namespace {

/// `cost` times share / whole, rounded down; what is forbidden stays so.
engine::Cost scaled(engine::Cost cost, std::int64_t share, std::int64_t whole) {
  if (cost >= engine::kForbidden) return engine::kForbidden;
  return cost / whole * share + cost % whole * share / whole;
}

}  // namespace

OverlapNetworks::OverlapNetworks(const Problem& problem, const costs::Redistributor& redistributor,
                                 const ModelNetwork& model)
    : problem_(problem), model_(model), windows_(problem, model.impl->uses) {
  price_links(redistributor);
  classify_windows();
}

void OverlapNetworks::price_links(const costs::Redistributor& redistributor) {
  const ModelNetwork::Impl& impl = *model_.impl;
  const MatmulNeighbours matmuls(problem_.graph, impl.uses);
  const bool can_pipeline = problem_.cluster.device.matmul_overlap > 0;
  // By table of paths, lists of placements or pairs of these, and whether it hides and matmuls are beside it.
  using Key = std::tuple<const costs::RedistributeTable*, std::int32_t, std::int32_t, std::int32_t, std::int32_t, bool,
                         bool, bool>;
  std::map<Key, std::int32_t> known;
  for (const ModelNetwork::Impl::Link& link : impl.links) {
    PricedLink& priced = links_.emplace_back();
    priced.edge = link.edge;
    priced.variable = link.pair_variable;
    priced.is_prefetch = windows_.is_prefetch(link.uses);
    const bool is_first = link.use == PointUsage::kCopy || (link.use >= 0 && impl.uses[ix(link.uses)].uses.size() == 1);
    priced.window = is_first ? windows_.hides_in(windows_.flight(link.uses)) : -1;
    const bool hides = priced.window >= 0;
    const bool is_behind = can_pipeline && matmuls.is_behind(link.uses);
    const bool is_before = can_pipeline && matmuls.is_before(link.uses);
    if (link.edge >= 0 && !hides && !is_behind && !is_before) continue;
    const costs::TensorMeta& tensor = problem_.graph.meta(impl.uses[ix(link.uses)].value);
    const auto [entry, is_new] = known.try_emplace({&redistributor.table(tensor), link.from.list, link.to.list,
                                                    link.pair_from, link.pair_to, hides, is_behind, is_before},
                                                   static_cast<std::int32_t>(prices_.size()));
    priced.prices = entry->second;
    if (is_new) prices_.push_back(make_prices(redistributor, link, matmuls, hides));
  }
}

OverlapNetworks::Prices OverlapNetworks::make_prices(const costs::Redistributor& redistributor,
                                                     const ModelNetwork::Impl::Link& link,
                                                     const MatmulNeighbours& matmuls, bool hides) {
  const ModelNetwork::Impl& impl = *model_.impl;
  const costs::RedistributeTable& paths = redistributor.table(problem_.graph.meta(impl.uses[ix(link.uses)].value));
  Prices prices;
  const auto add = [&](const costs::Placements& from, const costs::Placements& to) {
    const bool is_moved = from != to && to != not_there();
    const int source = is_moved ? paths.index_of(from) : 0;
    const int target = is_moved ? paths.index_of(to) : 0;
    const bool is_possible = !is_moved || paths.reaches(source, target);
    CommunicationTime time;
    if (is_moved && is_possible) {
      time = communication_time(paths.path(source, target), hides, matmuls.is_behind(link.uses),
                                matmuls.is_before(link.uses), problem_.cluster.device);
    }
    prices.exposed.costs.push_back(is_possible ? time.exposed_ps : engine::kForbidden);
    prices.hideable.costs.push_back(is_possible ? time.hideable_ps : engine::kForbidden);
    prices.startups_ps.push_back(time.startup_ps);
    prices.buckets.push_back(-1);
    if (!time.bucket) return;
    const auto known = std::find(buckets_.begin(), buckets_.end(), *time.bucket);
    prices.buckets.back() = static_cast<std::int32_t>(known - buckets_.begin());
    if (known == buckets_.end()) buckets_.push_back(*time.bucket);
  };
  const PlacementList& from = impl.lists[ix(link.from.list)];
  const PlacementList& to = impl.lists[ix(link.to.list)];
  if (link.edge < 0) {
    const engine::Projection& rows = model_.network.projections[ix(link.pair_from)];
    const engine::Projection& cols = model_.network.projections[ix(link.pair_to)];
    for (std::size_t x = 0; x < rows.size(); ++x) add(from[ix(rows[x])], to[ix(cols[x])]);
  } else {
    for (const costs::Placements& a : from) {
      for (const costs::Placements& b : to) add(a, b);
    }
  }
  for (engine::Table* table : {&prices.exposed, &prices.hideable}) {
    table->cols = link.edge < 0 ? 1 : static_cast<std::int32_t>(to.size());
    table->rows = static_cast<std::int32_t>(table->costs.size()) / table->cols;
  }
  return prices;
}

void OverlapNetworks::classify_windows() {
  const std::vector<PhaseUses>& uses = model_.impl->uses;
  std::vector<std::string> contents(ix(windows_.count()));
  for (std::size_t i = 0; i < problem_.graph.nodes.size(); ++i) {
    const std::int32_t window = windows_.of_node(static_cast<std::int32_t>(i));
    if (window >= 0) contents[ix(window)] += problem_.graph.nodes[i].op + "\n";
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].window < 0) continue;
    const costs::ValueRef value = uses[ix(model_.impl->links[i].uses)].value;
    contents[ix(links_[i].window)] += problem_.graph.nodes[ix(value.node)].op + (links_[i].is_prefetch ? "\tp" : "\tg");
  }
  std::map<std::string, std::int32_t> known;
  for (const std::string& one : contents) {
    classes_.push_back(known.try_emplace(one, static_cast<std::int32_t>(known.size())).first->second);
  }
  num_classes_ = static_cast<std::int32_t>(known.size());
  std::vector<std::int32_t> num_before(contents.size(), 0);                   // per window: links that were seen
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> group_of;     // by class and place
  std::map<std::pair<std::int32_t, bool>, std::vector<std::int32_t>> shares;  // by class and whether prefetches
  for (PricedLink& link : links_) {
    if (link.window < 0) continue;
    const std::int32_t own = classes_[ix(link.window)];
    const auto [group, is_new] =
        group_of.try_emplace({own, num_before[ix(link.window)]++}, static_cast<std::int32_t>(group_sizes_.size()));
    if (is_new) {
      group_sizes_.push_back(0);
      shares[{own, link.is_prefetch}].push_back(group->second);
    }
    link.group = group->second;
    ++group_sizes_[ix(link.group)];
  }
  for (auto& [key, groups] : shares) sharing_.push_back(std::move(groups));
}

OverlapNetworks::Multipliers OverlapNetworks::even(std::int64_t share) const {
  Multipliers made;
  made.shares.assign(ix(num_classes_), share);
  made.startup.resize(group_sizes_.size());
  for (const std::vector<std::int32_t>& groups : sharing_) {
    const std::int64_t part = kWhole / static_cast<std::int64_t>(groups.size());
    for (const std::int32_t group : groups) made.startup[ix(group)].assign(buckets_.size(), part);
  }
  return made;
}

OverlapNetworks::Members OverlapNetworks::members(const engine::Assignment& assignment) const {
  Members found(group_sizes_.size(), std::vector<std::int64_t>(buckets_.size(), 0));
  for (const PricedLink& link : links_) {
    if (link.group < 0) continue;
    const std::int32_t bucket = link_cost(link, assignment).bucket;
    if (bucket >= 0) ++found[ix(link.group)][ix(bucket)];
  }
  return found;
}

void OverlapNetworks::ascend(const engine::Assignment& assignment, std::int64_t step, Multipliers& multipliers) const {
  const StepTime now = time(assignment);
  std::vector<std::int64_t> excess(ix(num_classes_), 0);
  for (std::size_t w = 0; w < classes_.size(); ++w) {
    excess[ix(classes_[w])] += now.windows[w].hideable_ps - now.windows[w].compute_ps;
  }
  for (std::size_t c = 0; c < excess.size(); ++c) {
    std::int64_t& share = multipliers.shares[c];
    share = std::clamp<std::int64_t>(share + (excess[c] > 0 ? step : -step), 0, kWhole);
  }
  const Members in_bucket = members(assignment);
  for (const std::vector<std::int32_t>& groups : sharing_) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      std::vector<std::int32_t> in;
      for (const std::int32_t group : groups) {
        if (2 * in_bucket[ix(group)][b] >= group_sizes_[ix(group)]) in.push_back(group);
      }
      if (in.empty() || in.size() == groups.size()) continue;
      // Each that is not in it gives up some of its part, at most all, to those that are.
      std::int64_t given = 0;
      for (const std::int32_t group : groups) {
        if (std::find(in.begin(), in.end(), group) != in.end()) continue;
        std::int64_t& part = multipliers.startup[ix(group)][b];
        const std::int64_t gives = std::min(part, step / static_cast<std::int64_t>(groups.size()) + 1);
        part -= gives;
        given += gives;
      }
      for (const std::int32_t group : in) {
        multipliers.startup[ix(group)][b] += given / static_cast<std::int64_t>(in.size());
      }
    }
  }
}

OverlapNetworks::Multipliers OverlapNetworks::fitted(const engine::Assignment& assignment) const {
  Multipliers made = even(kWhole);
  for (std::vector<std::int64_t>& parts : made.startup) parts.assign(buckets_.size(), kWhole);
  const StepTime now = time(assignment);
  std::vector<std::int64_t> compute(ix(num_classes_), 0);
  std::vector<std::int64_t> hideable(ix(num_classes_), 0);
  for (std::size_t w = 0; w < classes_.size(); ++w) {
    compute[ix(classes_[w])] += now.windows[w].compute_ps;
    hideable[ix(classes_[w])] += now.windows[w].hideable_ps;
  }
  // What hides well costs little, as long as it does.
  for (std::size_t c = 0; c < compute.size(); ++c) {
    if (hideable[c] <= compute[c]) made.shares[c] = compute[c] > 0 ? kWhole * hideable[c] / (2 * compute[c]) : 0;
  }
  const Members in_bucket = members(assignment);
  for (const std::vector<std::int32_t>& groups : sharing_) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      std::int64_t count = 0;
      for (const std::int32_t group : groups) count += in_bucket[ix(group)][b] > 0 ? 1 : 0;
      if (count == 0) continue;
      for (const std::int32_t group : groups) made.startup[ix(group)][b] = kWhole / (count + 1);
    }
  }
  return made;
}

engine::CostNetwork OverlapNetworks::priced(const Multipliers& multipliers) const {
  engine::CostNetwork network = model_.network;
  const ModelNetwork::Impl& impl = *model_.impl;
  std::map<std::pair<std::int32_t, std::int64_t>, std::int32_t> domain_of;  // of (domain, share of its window)
  for (std::size_t i = 0; i < impl.node_variable.size(); ++i) {
    const std::int32_t window = windows_.of_node(static_cast<std::int32_t>(i));
    const std::int64_t share = window < 0 ? 0 : multipliers.shares[ix(classes_[ix(window)])];
    if (share == 0) continue;
    engine::Variable& variable = network.variables[ix(impl.node_variable[i])];
    const auto [entry, is_new] = domain_of.try_emplace({variable.domain, share}, -1);
    if (is_new) {
      entry->second = static_cast<std::int32_t>(network.domains.size());
      engine::Domain domain = network.domains[ix(variable.domain)];
      for (std::size_t x = 0; x < domain.costs.size(); ++x) {
        const engine::Cost communication = impl.choices[i]->communication[x];
        domain.costs[x] = communication + scaled(domain.costs[x] - communication, kWhole - share, kWhole);
      }
      network.domains.push_back(std::move(domain));
    }
    variable.domain = entry->second;
  }
  price_links(multipliers, network);
  return network;
}

void OverlapNetworks::price_links(const Multipliers& multipliers, engine::CostNetwork& network) const {
  using Key = std::tuple<std::int32_t, std::int64_t, std::vector<std::int64_t>>;  // prices, share, start-ups
  std::map<Key, std::int32_t> table_of;
  std::map<std::pair<std::int32_t, Key>, std::int32_t> domain_of;  // of pairs, by their own
  for (const PricedLink& link : links_) {
    if (link.prices < 0) continue;
    const bool hides = link.window >= 0;
    const Key key{link.prices, hides ? multipliers.shares[ix(classes_[ix(link.window)])] : 0,
                  hides ? multipliers.startup[ix(link.group)] : std::vector<std::int64_t>(buckets_.size(), 0)};
    const auto table = [&] { return priced(prices_[ix(link.prices)], std::get<1>(key), std::get<2>(key)); };
    if (link.edge < 0) {
      engine::Variable& variable = network.variables[ix(link.variable)];
      const auto next = static_cast<std::int32_t>(network.domains.size());
      const auto [entry, is_new] = domain_of.try_emplace({variable.domain, key}, next);
      if (is_new) {
        engine::Domain domain = network.domains[ix(variable.domain)];
        domain.costs = table().costs;
        network.domains.push_back(std::move(domain));
      }
      variable.domain = entry->second;
    } else {
      const auto next = static_cast<std::int32_t>(network.tables.size());
      const auto [entry, is_new] = table_of.try_emplace(key, next);
      if (is_new) network.tables.push_back(table());
      network.edges[ix(link.edge)].table = entry->second;
    }
  }
}

engine::Table OverlapNetworks::priced(const Prices& prices, std::int64_t share,
                                      const std::vector<std::int64_t>& startup) const {
  engine::Table table = prices.exposed;
  for (std::size_t i = 0; i < table.costs.size(); ++i) {
    if (table.costs[i] >= engine::kForbidden) continue;
    const std::int32_t bucket = prices.buckets[i];
    const engine::Cost taken_over = bucket < 0 ? 0 : scaled(prices.startups_ps[i], startup[ix(bucket)], kWhole);
    table.costs[i] += scaled(prices.hideable.costs[i] + taken_over, share, kWhole);
  }
  return table;
}

OverlapNetworks::Cost OverlapNetworks::link_cost(const PricedLink& link, const engine::Assignment& assignment) const {
  if (link.edge < 0) {
    const Prices& prices = prices_[ix(link.prices)];
    const std::size_t x = ix(assignment[ix(link.variable)]);
    return {prices.exposed.costs[x], prices.hideable.costs[x], prices.startups_ps[x], prices.buckets[x]};
  }
  const engine::Edge& edge = model_.network.edges[ix(link.edge)];
  const std::int32_t row = model_.network.projections[ix(edge.project_u)][ix(assignment[ix(edge.u)])];
  const std::int32_t col = model_.network.projections[ix(edge.project_v)][ix(assignment[ix(edge.v)])];
  if (link.prices < 0) return {model_.network.tables[ix(edge.table)].at(row, col), 0, 0, -1};
  const Prices& prices = prices_[ix(link.prices)];
  const std::size_t x = ix(row * prices.exposed.cols + col);
  return {prices.exposed.costs[x], prices.hideable.costs[x], prices.startups_ps[x], prices.buckets[x]};
}

StepTime OverlapNetworks::time(const engine::Assignment& assignment) const {
  const ModelNetwork::Impl& impl = *model_.impl;
  StepTime time;
  time.windows.resize(ix(windows_.count()));
  for (std::size_t i = 0; i < impl.node_variable.size(); ++i) {
    const std::int32_t window = windows_.of_node(static_cast<std::int32_t>(i));
    const std::size_t x = ix(assignment[ix(impl.node_variable[i])]);
    const engine::Cost communication = impl.choices[i]->communication[x];
    (window < 0 ? time.optimizer_ps : time.windows[ix(window)].compute_ps) +=
        impl.choices[i]->domain.costs[x] - communication;
    time.exposed_ps += communication;
  }
  // By window, and whether of prefetches: the start-up.
  std::map<std::tuple<std::int32_t, bool, std::int32_t>, std::int64_t> buckets;
  for (const PricedLink& link : links_) {
    const Cost cost = link_cost(link, assignment);
    time.exposed_ps += cost.exposed;
    if (link.window < 0) continue;
    WindowTime& hiding = time.windows[ix(link.window)];
    hiding.hideable_ps += cost.hideable;
    if (cost.bucket < 0) continue;
    std::int64_t& startup_ps = buckets[{link.window, link.is_prefetch, cost.bucket}];
    startup_ps = std::max(startup_ps, cost.startup);
  }
  for (const auto& [bucket, startup_ps] : buckets) time.windows[ix(std::get<0>(bucket))].hideable_ps += startup_ps;
  return time;
}

}  // namespace autopar::partition
