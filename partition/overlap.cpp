#include "partition/overlap.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
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

bool is_cast_or_view(const Node& node) { return costs::is_view(node.op) || node.op == "aten._to_copy.default"; }

/// Finds which values are there from the start of the step, and which only gradients are made of.
class DataFlow {
 public:
  DataFlow(const Graph& graph, const std::vector<PhaseUses>& uses) : graph_(graph), is_given_(graph.nodes.size(), 0) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      const auto given = [&](const costs::ValueRef& input) { return is_given_[ix(input.node)] != 0; };
      is_given_[i] = node.role == Role::kNone
                         ? is_cast_or_view(node) && std::all_of(node.inputs.begin(), node.inputs.end(), given)
                         : node.role != Role::kTangent;
    }
    find_gradients(uses);
  }

  /// Made of graph inputs alone.
  bool is_given(std::int32_t node) const { return is_given_[ix(node)] != 0; }
  /// Read by nothing but what hands gradients out.
  bool is_for_gradients(const PhaseUses& uses) const {
    return std::all_of(uses.uses.begin(), uses.uses.end(), [&](const Redistribution::Use& use) {
      if (use.input < 0) return graph_.outputs[ix(use.node)].role == costs::OutputRole::kGradient;
      return makes_gradient_[ix(use.node)] != 0;
    });
  }

 private:
  void find_gradients(const std::vector<PhaseUses>& uses) {
    std::map<std::int32_t, std::vector<const PhaseUses*>> of_node;
    for (const PhaseUses& one : uses) of_node[one.value.node].push_back(&one);
    makes_gradient_.assign(graph_.nodes.size(), 0);
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      if (node.phase != Phase::kBackward || node.role != Role::kNone || !is_cast_or_view(node)) continue;
      const auto& read = of_node[static_cast<std::int32_t>(i)];
      makes_gradient_[i] = !read.empty() && std::all_of(read.begin(), read.end(),
                                                        [&](const PhaseUses* one) { return is_for_gradients(*one); });
    }
  }

  const Graph& graph_;
  std::vector<char> is_given_;        // per node
  std::vector<char> makes_gradient_;  // per node
};

/// Hideable collectives of one window: what they take without start-up, and which buckets there are.
struct Buckets {
  std::int64_t bytes_ps = 0;
  std::set<std::pair<RedistributeStep::Kind, std::uint32_t>> kinds;
};

/// Of a collective with no bytes; 0 for a local step.
std::int64_t startup_ps(RedistributeStep::Kind kind, std::uint32_t mesh_dims,
                        const costs::CollectiveModel& collectives) {
  const auto collective = costs::collective_of(kind);
  return collective ? collectives.time_ps(*collective, mesh_dims, 0) : 0;
}

}  // namespace

Overlap::Overlap(const Graph& graph, const std::vector<PhaseUses>& uses) {
  const Segments segments = find_segments(graph);
  num_windows_ = 2 * segments.count;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const std::int32_t segment = segments.of_node[i];
    window_of_.push_back(node.role != Role::kNone        ? -1
                         : node.phase == Phase::kForward ? segment
                                                         : num_windows_ - 1 - segment);
  }
  const DataFlow flow(graph, uses);
  // Through views, what a matmul gives and what one reads.
  std::vector<char> from_matmul(graph.nodes.size(), 0);
  std::vector<char> to_matmul(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool passes_on = costs::is_view(node.op) && !node.inputs.empty() && from_matmul[ix(node.inputs[0].node)] != 0;
    from_matmul[i] = costs::is_matmul(node.op) || passes_on ? 1 : 0;
    if (costs::is_matmul(node.op)) to_matmul[i] = 1;
  }
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (to_matmul[i] == 0) continue;
    for (const costs::ValueRef& input : node.inputs) {
      if (costs::is_view(graph.nodes[ix(input.node)].op)) to_matmul[ix(input.node)] = 1;
    }
  }
  std::map<std::pair<std::int32_t, char>, std::int64_t> num_in;  // of (window, gathers): redistributions that can hide
  std::vector<char> is_gather;
  for (const PhaseUses& one : uses) {
    std::int32_t window = -1;
    const auto reads = [&](const Redistribution::Use& use) { return use.input >= 0; };
    const auto reader = std::find_if(one.uses.begin(), one.uses.end(), reads);
    if (flow.is_given(one.value.node) && reader != one.uses.end()) {
      window = window_of(reader->node) - 1;
    } else if (one.phase == Phase::kBackward && window_of(one.value.node) >= 0 && flow.is_for_gradients(one)) {
      window = window_of(one.value.node) + 1 < num_windows_ ? window_of(one.value.node) + 1 : -1;
    }
    hides_in_.push_back(window);
    is_gather.push_back(flow.is_given(one.value.node) ? 1 : 0);
    if (window >= 0) num_in[{window, is_gather.back()}] += static_cast<std::int64_t>(one.uses.size()) + 1;
    behind_matmul_.push_back(from_matmul[ix(one.value.node)]);
    before_matmul_.push_back(std::any_of(one.uses.begin(), one.uses.end(), [&](const Redistribution::Use& use) {
      return use.input >= 0 && to_matmul[ix(use.node)] != 0;
    }));
  }
  for (std::size_t i = 0; i < uses.size(); ++i) {
    most_in_bucket_.push_back(hides_in_[i] < 0 ? 0 : num_in[{hides_in_[i], is_gather[i]}]);
  }
}

std::int64_t exposed_ps(const Overlap& overlap, std::int32_t uses, const std::vector<RedistributeStep>& steps,
                        const costs::Device& device) {
  std::int64_t sum = 0;
  for (const RedistributeStep& step : steps) sum += step.time_ps;
  if (steps.size() != 1 || device.matmul_overlap <= 0) return sum;
  const bool is_pipelined = (steps[0].kind == RedistributeStep::Kind::kAllGather && overlap.is_before_matmul(uses)) ||
                            (steps[0].kind == RedistributeStep::Kind::kReduceScatter && overlap.is_behind_matmul(uses));
  return is_pipelined ? std::llround(static_cast<double>(sum) * (1 - device.matmul_overlap)) : sum;
}

std::int64_t hideable_ps(const std::vector<RedistributeStep>& steps, const costs::CollectiveModel& collectives,
                         std::int64_t most_in_bucket) {
  std::int64_t sum = 0;
  for (const RedistributeStep& step : steps) {
    if (!costs::collective_of(step.kind)) continue;
    const std::int64_t startup = startup_ps(step.kind, step.mesh_dims, collectives);
    sum += step.time_ps - startup + (most_in_bucket > 0 ? startup / most_in_bucket : 0);
  }
  return sum;
}

std::int64_t StepTime::total_ps() const {
  std::int64_t sum = exposed_ps + optimizer_ps;
  for (const WindowTime& window : windows) sum += window.compute_ps + window.uncovered_ps();
  return sum;
}

StepTime step_time(const Problem& problem, const Plan& plan, const costs::CollectiveModel& collectives) {
  const std::vector<PhaseUses> uses = collect_uses(problem.graph);
  const Overlap overlap(problem.graph, uses);
  StepTime time;
  time.windows.resize(ix(overlap.num_windows()));
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const std::int32_t window = overlap.window_of(static_cast<std::int32_t>(i));
    (window < 0 ? time.optimizer_ps : time.windows[ix(window)].compute_ps) += plan.nodes[i].compute_ps;
    time.exposed_ps += costs::total_ps(plan.nodes[i].all_reduces);
  }
  const UsesOfValues of_values = uses_of_values(uses);
  std::vector<Buckets> buckets(time.windows.size());
  for (const Redistribution& one : plan.redistributions) {
    // What is saved is for the backward's readers.
    const Phase phase = one.is_saved ? Phase::kBackward : one.phase;
    const std::int32_t entry = of_values.at({one.value.node, one.value.output}).in(phase);
    const std::int32_t window = overlap.hides_in(entry);
    if (window < 0) {
      time.exposed_ps += exposed_ps(overlap, entry, one.steps, problem.cluster.device);
      continue;
    }
    buckets[ix(window)].bytes_ps += hideable_ps(one.steps, collectives, 0);
    for (const RedistributeStep& step : one.steps) {
      if (costs::collective_of(step.kind)) buckets[ix(window)].kinds.emplace(step.kind, step.mesh_dims);
    }
  }
  for (std::size_t w = 0; w < buckets.size(); ++w) {
    time.windows[w].hideable_ps = buckets[w].bytes_ps;
    for (const auto& [kind, mesh_dims] : buckets[w].kinds) {
      time.windows[w].hideable_ps += startup_ps(kind, mesh_dims, collectives);
    }
  }
  return time;
}

OverlapNetworks::OverlapNetworks(const Problem& problem, const costs::Redistributor& redistributor,
                                 const ModelNetwork& model)
    : problem_(problem), model_(model), overlap_(problem.graph, model.impl->uses) {
  price_links(redistributor);
  classify_windows();
}

void OverlapNetworks::price_links(const costs::Redistributor& redistributor) {
  const ModelNetwork::Impl& impl = *model_.impl;
  using Key = std::tuple<const costs::RedistributeTable*, std::int32_t, std::int32_t, std::int64_t>;
  std::map<Key, std::int32_t> known;
  for (const ModelNetwork::Impl::Link& link : impl.links) {
    PricedLink& priced = links_.emplace_back();
    priced.edge = link.edge;
    priced.variable = link.pair_variable;
    priced.window = link.use == PointUsage::kSaved ? -1 : overlap_.hides_in(link.uses);
    const costs::RedistributeTable& paths = redistributor.table(problem_.graph.meta(impl.uses[ix(link.uses)].value));
    const auto cost_of = [&](const costs::Placements& from, const costs::Placements& to) -> engine::Cost {
      if (from == to || to == not_there()) return 0;
      const int source = paths.index_of(from);
      const int target = paths.index_of(to);
      if (!paths.reaches(source, target)) return engine::kForbidden;
      const std::vector<RedistributeStep> steps = paths.path(source, target);
      return priced.window >= 0 ? hideable_ps(steps, redistributor.collectives(), overlap_.most_in_bucket(link.uses))
                                : exposed_ps(overlap_, link.uses, steps, problem_.cluster.device);
    };
    const PlacementList& from = impl.lists[ix(link.from.list)];
    const PlacementList& to = impl.lists[ix(link.to.list)];
    if (link.edge < 0) {
      const engine::Projection& rows = model_.network.projections[ix(link.pair_from)];
      const engine::Projection& cols = model_.network.projections[ix(link.pair_to)];
      for (std::size_t x = 0; x < rows.size(); ++x) priced.costs.push_back(cost_of(from[ix(rows[x])], to[ix(cols[x])]));
      continue;
    }
    const bool is_pipelined = problem_.cluster.device.matmul_overlap > 0 &&
                              (overlap_.is_before_matmul(link.uses) || overlap_.is_behind_matmul(link.uses));
    if (priced.window < 0 && !is_pipelined) continue;
    const std::int64_t kind = priced.window >= 0
                                  ? -overlap_.most_in_bucket(link.uses)
                                  : 1 + overlap_.is_before_matmul(link.uses) + 2 * overlap_.is_behind_matmul(link.uses);
    const auto [entry, is_new] = known.try_emplace({&paths, link.from.list, link.to.list, kind}, -1);
    if (is_new) {
      engine::Table table{static_cast<std::int32_t>(from.size()), static_cast<std::int32_t>(to.size()), {}};
      for (const costs::Placements& a : from) {
        for (const costs::Placements& b : to) table.costs.push_back(cost_of(a, b));
      }
      entry->second = static_cast<std::int32_t>(tables_.size());
      tables_.push_back(std::move(table));
    }
    priced.table = entry->second;
  }
}

void OverlapNetworks::classify_windows() {
  std::vector<std::string> ops(ix(overlap_.num_windows()));
  for (std::size_t i = 0; i < problem_.graph.nodes.size(); ++i) {
    const std::int32_t window = overlap_.window_of(static_cast<std::int32_t>(i));
    if (window >= 0) ops[ix(window)] += problem_.graph.nodes[i].op + "\n";
  }
  std::map<std::string, std::int32_t> known;
  for (const std::string& one : ops) {
    classes_.push_back(known.try_emplace(one, static_cast<std::int32_t>(known.size())).first->second);
  }
}

namespace {

/// `cost` times share / whole, rounded down; what is forbidden stays so.
engine::Cost scaled(engine::Cost cost, std::int64_t share, std::int64_t whole) {
  if (cost >= engine::kForbidden) return engine::kForbidden;
  return cost / whole * share + cost % whole * share / whole;
}

}  // namespace

engine::CostNetwork OverlapNetworks::priced(const std::vector<std::int64_t>& shares) const {
  engine::CostNetwork network = model_.network;
  const ModelNetwork::Impl& impl = *model_.impl;
  std::map<std::pair<std::int32_t, std::int64_t>, std::int32_t> domain_of;  // of (domain, share of its window)
  for (std::size_t i = 0; i < impl.node_variable.size(); ++i) {
    const std::int32_t window = overlap_.window_of(static_cast<std::int32_t>(i));
    if (window < 0 || shares[ix(window)] == 0) continue;
    engine::Variable& variable = network.variables[ix(impl.node_variable[i])];
    const auto [entry, is_new] = domain_of.try_emplace({variable.domain, shares[ix(window)]}, -1);
    if (is_new) {
      entry->second = static_cast<std::int32_t>(network.domains.size());
      engine::Domain domain = network.domains[ix(variable.domain)];
      for (std::size_t x = 0; x < domain.costs.size(); ++x) {
        const engine::Cost communication = impl.choices[i]->communication[x];
        domain.costs[x] = communication + scaled(domain.costs[x] - communication, kWhole - shares[ix(window)], kWhole);
      }
      network.domains.push_back(std::move(domain));
    }
    variable.domain = entry->second;
  }
  std::map<std::tuple<std::int32_t, std::int64_t>, std::int32_t> table_of;  // of (own table, share)
  std::map<std::tuple<std::int32_t, std::int64_t, std::vector<engine::Cost>>, std::int32_t> pair_domain_of;
  for (const PricedLink& link : links_) {
    const std::int64_t share = link.window < 0 ? kWhole : shares[ix(link.window)];
    if (link.edge < 0) {
      engine::Variable& variable = network.variables[ix(link.variable)];
      const auto [entry, is_new] = pair_domain_of.try_emplace({variable.domain, share, link.costs}, -1);
      if (is_new) {
        entry->second = static_cast<std::int32_t>(network.domains.size());
        engine::Domain domain = network.domains[ix(variable.domain)];
        for (std::size_t x = 0; x < domain.costs.size(); ++x) domain.costs[x] = scaled(link.costs[x], share, kWhole);
        network.domains.push_back(std::move(domain));
      }
      variable.domain = entry->second;
    } else if (link.table >= 0) {
      const auto [entry, is_new] = table_of.try_emplace({link.table, share}, -1);
      if (is_new) {
        entry->second = static_cast<std::int32_t>(network.tables.size());
        engine::Table table = tables_[ix(link.table)];
        for (engine::Cost& cost : table.costs) cost = scaled(cost, share, kWhole);
        network.tables.push_back(std::move(table));
      }
      network.edges[ix(link.edge)].table = entry->second;
    }
  }
  return network;
}

engine::Cost OverlapNetworks::link_cost(const PricedLink& link, const engine::Assignment& assignment) const {
  if (link.edge < 0) return link.costs[ix(assignment[ix(link.variable)])];
  const engine::Edge& edge = model_.network.edges[ix(link.edge)];
  const engine::Table& table = link.table >= 0 ? tables_[ix(link.table)] : model_.network.tables[ix(edge.table)];
  return table.at(model_.network.projections[ix(edge.project_u)][ix(assignment[ix(edge.u)])],
                  model_.network.projections[ix(edge.project_v)][ix(assignment[ix(edge.v)])]);
}

StepTime OverlapNetworks::time(const engine::Assignment& assignment) const {
  const ModelNetwork::Impl& impl = *model_.impl;
  StepTime time;
  time.windows.resize(ix(overlap_.num_windows()));
  for (std::size_t i = 0; i < impl.node_variable.size(); ++i) {
    const std::int32_t window = overlap_.window_of(static_cast<std::int32_t>(i));
    const std::size_t x = ix(assignment[ix(impl.node_variable[i])]);
    const engine::Cost communication = impl.choices[i]->communication[x];
    (window < 0 ? time.optimizer_ps : time.windows[ix(window)].compute_ps) +=
        impl.choices[i]->domain.costs[x] - communication;
    time.exposed_ps += communication;
  }
  for (const PricedLink& link : links_) {
    (link.window < 0 ? time.exposed_ps : time.windows[ix(link.window)].hideable_ps) += link_cost(link, assignment);
  }
  return time;
}

}  // namespace autopar::partition
