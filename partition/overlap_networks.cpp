#include "partition/overlap_networks.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "engine/index.h"
#include "partition/edge_tables.h"

namespace autopar::partition {

using engine::ix;

namespace {

/// `cost` times share / whole, rounded down; what is forbidden stays so.
engine::Cost scaled(engine::Cost cost, std::int64_t share, std::int64_t whole) {
  if (cost >= engine::kForbidden) return engine::kForbidden;
  return cost / whole * share + cost % whole * share / whole;
}

}  // namespace

OverlapNetworks::OverlapNetworks(const Problem& problem, const costs::Redistributor& redistributor,
                                 const ModelNetwork& model)
    : problem_(problem), model_(model), windows_(*model.impl->windows), pipelines_(problem, model.impl->uses) {
  price_links(redistributor);
  classify_windows();
}

void OverlapNetworks::price_links(const costs::Redistributor& redistributor) {
  const ModelNetwork::Impl& impl = *model_.impl;
  // By table of paths, lists of placements or pairs of these, whether it hides, and the choices of matmuls beside it.
  using Key = std::tuple<const costs::RedistributeTable*, std::int32_t, std::int32_t, std::int32_t, std::int32_t, bool,
                         std::vector<const Choices*>, costs::Phase>;
  std::map<Key, std::int32_t> known;
  for (const ModelNetwork::Impl::Link& link : impl.links) {
    PricedLink& priced = links_.emplace_back();
    priced.edge = link.edge;
    priced.variable = link.pair_variable;
    priced.is_prefetch = windows_.is_prefetch(link.uses);
    priced.window = windows_.hides_in(impl.flight(link));
    const bool hides = priced.window >= 0;
    std::vector<const Choices*> beside;
    if (!hides && link.use != PointUsage::kSaved) {
      for (const std::int32_t matmul : pipelines_.around(link.uses)) {
        beside.push_back(matmul < 0 ? nullptr : impl.choices[ix(matmul)].get());
      }
    }
    const bool can_pipeline = std::any_of(beside.begin(), beside.end(), [](const Choices* one) { return one; });
    if (link.edge >= 0 && !hides && !can_pipeline) continue;
    const costs::TensorMeta& tensor = problem_.graph.meta(impl.uses[ix(link.uses)].value);
    const auto [entry, is_new] =
        known.try_emplace({&redistributor.table(tensor), link.from.list, link.to.list, link.pair_from, link.pair_to,
                           hides, std::move(beside), impl.uses[ix(link.uses)].phase},
                          static_cast<std::int32_t>(prices_.size()));
    priced.prices = entry->second;
    if (is_new) prices_.push_back(make_prices(redistributor, link, hides, can_pipeline));
  }
}

OverlapNetworks::Prices OverlapNetworks::make_prices(const costs::Redistributor& redistributor,
                                                     const ModelNetwork::Impl::Link& link, bool hides,
                                                     bool can_pipeline) {
  const ModelNetwork::Impl& impl = *model_.impl;
  const costs::RedistributeTable& paths = redistributor.table(problem_.graph.meta(impl.uses[ix(link.uses)].value));
  Prices prices;
  const PlacementList& from = impl.lists[ix(link.from.list)];
  const PlacementList& to = impl.lists[ix(link.to.list)];
  const bool to_kept_or_given = has_kept(to);
  const auto add = [&](const costs::Placements& a, const costs::Placements& b) {
    const int source = paths.index_of(unmarked(a));
    const int target = paths.index_of(unmarked(b));
    const Way found = way(a, b, to_kept_or_given, paths.reaches(source, target));
    CommunicationTime time;
    Prices::InPieces in_pieces;
    if (found == Way::kMoved) {
      const std::vector<costs::RedistributeStep> steps = paths.path(source, target);
      time = communication_time(steps, hides && impl.may_fly(link, a));
      if (can_pipeline) in_pieces = find_pieces(link, steps);
    }
    if (found == Way::kNone) time.exposed_ps = engine::kForbidden;
    if (time.bucket && index_of(time.bucket) < 0) buckets_.push_back(*time.bucket);
    prices.times.push_back(time);
    prices.in_pieces.push_back(in_pieces);
  };
  if (link.edge < 0) {
    const engine::Projection& rows = model_.network.projections[ix(link.pair_from)];
    const engine::Projection& cols = model_.network.projections[ix(link.pair_to)];
    for (std::size_t x = 0; x < rows.size(); ++x) add(from[ix(rows[x])], to[ix(cols[x])]);
  } else {
    for (const costs::Placements& a : from) {
      for (const costs::Placements& b : to) add(a, b);
    }
  }
  prices.cols = link.edge < 0 ? 1 : static_cast<std::int32_t>(to.size());
  const auto is_whole = [](const Prices::InPieces& one) { return one.most_hidden_ps == 0; };
  if (std::all_of(prices.in_pieces.begin(), prices.in_pieces.end(), is_whole)) prices.in_pieces.clear();
  return prices;
}

OverlapNetworks::Prices::InPieces OverlapNetworks::find_pieces(
    const ModelNetwork::Impl::Link& link, const std::vector<costs::RedistributeStep>& steps) const {
  const costs::RedistributeStep* step = step_in_pieces(steps);
  if (step == nullptr) return {};
  const std::vector<std::int32_t> matmuls = pipelines_.matmuls(link.uses, model_.impl->uses[ix(link.uses)].uses, *step);
  if (matmuls.empty()) return {};
  const auto strategies = [&](std::int32_t node) -> const std::vector<costs::Strategy>& {
    return model_.impl->choices[ix(node)]->strategies;
  };
  return {*step, pipelines_.most_hidden_ps(*step, matmuls, strategies)};
}

void OverlapNetworks::classify_windows() {
  const std::vector<PhaseUses>& uses = model_.impl->uses;
  std::vector<std::string> contents(ix(windows_.count()));
  for (std::size_t i = 0; i < problem_.graph.nodes.size(); ++i) {
    const std::int32_t window = windows_.of_node(static_cast<std::int32_t>(i));
    if (window >= 0) contents[ix(window)] += problem_.graph.nodes[i].op + "\n";
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].window < 0 || is_behind_kept(i)) continue;
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
  for (std::size_t i = 0; i < links_.size(); ++i) {
    PricedLink& link = links_[i];
    if (link.window < 0) continue;
    if (is_behind_kept(i)) {
      link.group = links_[i - 1].group;
      continue;
    }
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

// Of a kept tensor and what the forward makes of it only one has a flight: for a bucket they are one.
bool OverlapNetworks::is_behind_kept(std::size_t link) const {
  const std::vector<ModelNetwork::Impl::Link>& links = model_.impl->links;
  return link > 0 && links[link - 1].use == PointUsage::kKept && links[link - 1].uses == links[link].uses;
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
    const std::int32_t bucket = index_of(link_time(link, assignment).bucket);
    if (bucket >= 0) ++found[ix(link.group)][ix(bucket)];
  }
  return found;
}

void OverlapNetworks::ascend(const engine::Assignment& assignment, std::int64_t step, Multipliers& multipliers) const {
  const std::vector<WindowTime> times = class_times(assignment);
  for (std::size_t c = 0; c < times.size(); ++c) {
    std::int64_t& share = multipliers.shares[c];
    const bool is_longer = times[c].hideable_ps > times[c].compute_ps;
    share = std::clamp<std::int64_t>(share + (is_longer ? step : -step), 0, kWhole);
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
  // What hides well costs little, as long as it does.
  const std::vector<WindowTime> times = class_times(assignment);
  for (std::size_t c = 0; c < times.size(); ++c) {
    const auto& [compute_ps, hideable_ps] = times[c];
    if (hideable_ps <= compute_ps) made.shares[c] = compute_ps > 0 ? kWhole * hideable_ps / (2 * compute_ps) : 0;
  }
  made.pipelined = pipelined_share(assignment);
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

bool OverlapNetworks::can_pipeline() const {
  return std::any_of(prices_.begin(), prices_.end(), [](const Prices& one) { return !one.in_pieces.empty(); });
}

std::int64_t OverlapNetworks::pipelined_share(const engine::Assignment& assignment) const {
  PipelineTimer timer = pipeline_timer(assignment);
  std::int64_t hidden_ps = 0;
  std::int64_t most_ps = 0;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].prices < 0 || prices_[ix(links_[i].prices)].in_pieces.empty()) continue;
    most_ps += prices_[ix(links_[i].prices)].in_pieces[index_of(links_[i], assignment)].most_hidden_ps;
    hidden_ps += pipelined_ps(i, assignment, timer);
  }
  return most_ps > 0 ? kWhole * hidden_ps / most_ps : 0;
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
    const auto table = [&] {
      return priced(prices_[ix(link.prices)], std::get<1>(key), std::get<2>(key), multipliers.pipelined);
    };
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
                                      const std::vector<std::int64_t>& startup, std::int64_t pipelined) const {
  engine::Table table;
  table.cols = prices.cols;
  table.rows = static_cast<std::int32_t>(prices.times.size()) / prices.cols;
  for (std::size_t i = 0; i < prices.times.size(); ++i) {
    const CommunicationTime& time = prices.times[i];
    const std::int32_t bucket = index_of(time.bucket);
    const engine::Cost taken_over = bucket < 0 ? 0 : scaled(time.startup_ps, startup[ix(bucket)], kWhole);
    const engine::Cost hidden =
        prices.in_pieces.empty() ? 0 : scaled(prices.in_pieces[i].most_hidden_ps, pipelined, kWhole);
    table.costs.push_back(time.exposed_ps - hidden + scaled(time.hideable_ps + taken_over, share, kWhole));
  }
  return table;
}

CommunicationTime OverlapNetworks::link_time(const PricedLink& link, const engine::Assignment& assignment) const {
  if (link.prices >= 0) return prices_[ix(link.prices)].times[index_of(link, assignment)];
  const engine::Table& table = model_.network.tables[ix(model_.network.edges[ix(link.edge)].table)];
  return {table.costs[index_of(link, assignment)]};
}

std::size_t OverlapNetworks::index_of(const PricedLink& link, const engine::Assignment& assignment) const {
  if (link.edge < 0) return ix(assignment[ix(link.variable)]);
  const engine::Edge& edge = model_.network.edges[ix(link.edge)];
  const std::int32_t row = model_.network.projections[ix(edge.project_u)][ix(assignment[ix(edge.u)])];
  const std::int32_t col = model_.network.projections[ix(edge.project_v)][ix(assignment[ix(edge.v)])];
  return ix(row * model_.network.tables[ix(edge.table)].cols + col);
}

/// Who gets what a link makes: of a copy, those readers that take it as it is.
std::vector<Redistribution::Use> OverlapNetworks::readers(std::size_t link,
                                                          const engine::Assignment& assignment) const {
  const ModelNetwork::Impl& impl = *model_.impl;
  const ModelNetwork::Impl::Link& made = impl.links[link];
  const std::vector<Redistribution::Use>& uses = impl.uses[ix(made.uses)].uses;
  if (made.use >= 0) return {uses[ix(made.use)]};
  const auto state = [&](const ModelNetwork::Impl::LinkEnd& end) {
    return impl
        .lists[ix(end.list)][ix(model_.network.projections[ix(end.projection)][ix(assignment[ix(end.variable)])])];
  };
  std::vector<Redistribution::Use> found;
  for (std::size_t i = link + 1; i < impl.links.size() && impl.links[i].uses == made.uses; ++i) {
    if (state(impl.links[i].from) == state(impl.links[i].to)) found.push_back(uses[ix(impl.links[i].use)]);
  }
  return found;
}

std::int64_t OverlapNetworks::pipelined_ps(std::size_t link, const engine::Assignment& assignment,
                                           PipelineTimer& timer) const {
  if (links_[link].prices < 0) return 0;
  const Prices& prices = prices_[ix(links_[link].prices)];
  if (prices.in_pieces.empty()) return 0;
  const auto& step = prices.in_pieces[index_of(links_[link], assignment)].step;
  return step ? timer.hidden_ps(model_.impl->links[link].uses, readers(link, assignment), *step) : 0;
}

std::int32_t OverlapNetworks::index_of(const std::optional<Bucket>& bucket) const {
  const auto found = bucket ? std::find(buckets_.begin(), buckets_.end(), *bucket) : buckets_.end();
  return found == buckets_.end() ? -1 : static_cast<std::int32_t>(found - buckets_.begin());
}

std::vector<WindowTime> OverlapNetworks::class_times(const engine::Assignment& assignment) const {
  const StepTime now = time(assignment);
  std::vector<WindowTime> times(ix(num_classes_));
  for (std::size_t w = 0; w < classes_.size(); ++w) {
    times[ix(classes_[w])].compute_ps += now.windows[w].compute_ps;
    times[ix(classes_[w])].hideable_ps += now.windows[w].hideable_ps;
  }
  return times;
}

PipelineTimer OverlapNetworks::pipeline_timer(const engine::Assignment& assignment) const {
  return {pipelines_, [&](std::int32_t node) {
            const ModelNetwork::Impl& impl = *model_.impl;
            const std::size_t x = ix(assignment[ix(impl.node_variable[ix(node)])]);
            const costs::Strategy& strategy = impl.choices[ix(node)]->strategies[x];
            return strategy.outputs[0] == not_there() ? nullptr : &strategy;
          }};
}

StepTime OverlapNetworks::time(const engine::Assignment& assignment) const {
  const ModelNetwork::Impl& impl = *model_.impl;
  StepTimer timer(windows_.count());
  for (std::size_t i = 0; i < impl.node_variable.size(); ++i) {
    const std::size_t x = ix(assignment[ix(impl.node_variable[i])]);
    const engine::Cost communication = impl.choices[i]->communication[x];
    timer.compute(windows_.of_node(static_cast<std::int32_t>(i)), impl.choices[i]->domain.costs[x] - communication);
    timer.communicate(-1, false, {communication});
  }
  PipelineTimer pipelines = pipeline_timer(assignment);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    CommunicationTime time = link_time(links_[i], assignment);
    time.exposed_ps -= pipelined_ps(i, assignment, pipelines);
    timer.communicate(links_[i].window, links_[i].is_prefetch, time);
  }
  return timer.take();
}

}  // namespace autopar::partition
