#include <cstddef>
#include <stdexcept>
#include <string>

#include "partition/build_network.h"
#include "partition/model_network.h"

namespace autopar::partition {
namespace {

std::size_t ix(std::int32_t i) { return static_cast<std::size_t>(i); }

/// Reads a plan off an assignment.
class PlanMaker {
 public:
  PlanMaker(const Problem& problem, const costs::Redistributor& redistributor, const ModelNetwork& model,
            const engine::Assignment& assignment)
      : problem_(problem),
        redistributor_(redistributor),
        network_(model.network),
        impl_(*model.impl),
        assignment_(assignment) {}

  Plan run() {
    const engine::Cost expected = engine::evaluate(network_, assignment_);
    if (expected >= engine::kForbidden) throw std::logic_error("a plan is asked for of a forbidden assignment");
    plan_.mesh = problem_.mesh;
    plan_.memory_limit_bytes = problem_.pins.memory_limit_bytes;
    plan_.parameter_bytes = engine::peak_usage(network_, assignment_);
    add_nodes();
    add_outputs();
    add_redistributions();
    plan_.cost_ps = plan_.compute_ps + plan_.communication_ps;
    if (plan_.cost_ps != expected) {
      throw std::logic_error("the plan's parts cost " + std::to_string(plan_.cost_ps) + " ps, its assignment " +
                             std::to_string(expected));
    }
    return std::move(plan_);
  }

 private:
  std::int32_t value_of(std::int32_t variable) const { return assignment_[ix(variable)]; }

  void add_nodes() {
    for (std::size_t i = 0; i < problem_.graph.nodes.size(); ++i) {
      const Choices& choices = *impl_.choices[i];
      const std::size_t value = ix(value_of(impl_.node_variable[i]));
      const costs::Strategy& strategy = choices.strategies[value];
      NodeChoice& node = plan_.nodes.emplace_back();
      node.inputs = strategy.inputs;
      node.outputs = strategy.outputs;
      node.programs = strategy.programs;
      node.all_reduces = costs::program_all_reduces(problem_.graph, problem_.graph.nodes[i], strategy, problem_.mesh,
                                                    problem_.cluster.device, redistributor_.collectives());
      const std::int64_t communication_ps = costs::total_ps(node.all_reduces);
      node.compute_ps = choices.domain.costs[value] - communication_ps;
      plan_.compute_ps += node.compute_ps;
      plan_.communication_ps += communication_ps;
    }
  }

  void add_outputs() {
    for (std::size_t i = 0; i < problem_.graph.outputs.size(); ++i) {
      const std::int32_t list = impl_.output_list[i];
      plan_.outputs.push_back(list < 0 ? plan_.nodes[ix(problem_.graph.outputs[i].of)].outputs[0]
                                       : impl_.lists[ix(list)][ix(value_of(impl_.output_variable[i]))]);
    }
  }

  // Links come in the order that the plan wants: by value and phase, the copy, then its readers.
  void add_redistributions() {
    std::size_t group = 0;  // the first entry of the current value and phase
    bool is_moved = false;  // whether that entry makes the copy
    for (std::size_t e = 0; e < impl_.links.size(); ++e) {
      const ModelNetwork::Impl::Link& link = impl_.links[e];
      const PhaseUses& uses = impl_.uses[ix(link.uses)];
      const engine::Edge& edge = network_.edges[e];
      const costs::Placements& from = state(link.from_list, edge.project_u, edge.u);
      const costs::Placements& to = state(link.to_list, edge.project_v, edge.v);
      if (e == 0 || impl_.links[e - 1].uses != link.uses) {
        group = plan_.redistributions.size();
        is_moved = false;
      }
      if (link.use < 0) {
        is_moved = from != to;
        if (is_moved) add_entry(uses, from, to);
        continue;
      }
      const Redistribution::Use& use = uses.uses[ix(link.use)];
      if (from != to) {
        entry_to(group, uses, from, to).uses.push_back(use);
      } else if (is_moved) {
        plan_.redistributions[group].uses.push_back(use);
      }
    }
  }

  /// A new entry, or one of the group that does the same for free: then it can as well serve one more reader.
  Redistribution& entry_to(std::size_t group, const PhaseUses& uses, const costs::Placements& from,
                           const costs::Placements& to) {
    for (std::size_t i = group; i < plan_.redistributions.size(); ++i) {
      Redistribution& known = plan_.redistributions[i];
      if (known.from == from && known.to == to && time_ps(known) == 0) return known;
    }
    return add_entry(uses, from, to);
  }

  static std::int64_t time_ps(const Redistribution& redistribution) {
    std::int64_t sum = 0;
    for (const costs::RedistributeStep& step : redistribution.steps) sum += step.time_ps;
    return sum;
  }

  const costs::Placements& state(std::int32_t list, std::int32_t projection, std::int32_t variable) const {
    return impl_.lists[ix(list)][ix(network_.projections[ix(projection)][ix(value_of(variable))])];
  }

  Redistribution& add_entry(const PhaseUses& uses, const costs::Placements& from, const costs::Placements& to) {
    const costs::RedistributeTable& table = redistributor_.table(problem_.graph.meta(uses.value));
    Redistribution& made = plan_.redistributions.emplace_back(Redistribution{uses.value, uses.phase, from, to, {}, {}});
    made.steps = table.path(table.index_of(from), table.index_of(to));
    plan_.communication_ps += time_ps(made);
    return made;
  }

  const Problem& problem_;
  const costs::Redistributor& redistributor_;
  const engine::CostNetwork& network_;
  const ModelNetwork::Impl& impl_;
  const engine::Assignment& assignment_;
  Plan plan_;
};

}  // namespace

Plan make_plan(const Problem& problem, const costs::Redistributor& redistributor, const ModelNetwork& model,
               const engine::Assignment& assignment) {
  return PlanMaker(problem, redistributor, model, assignment).run();
}

}  // namespace autopar::partition
