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
      plan_.nodes.push_back({strategy.inputs, strategy.outputs, choices.domain.costs[value]});
      plan_.compute_ps += choices.domain.costs[value];
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
    std::size_t copy = kNone;  // the entry that makes the current copy
    for (std::size_t e = 0; e < impl_.links.size(); ++e) {
      const ModelNetwork::Impl::Link& link = impl_.links[e];
      const PhaseUses& uses = impl_.uses[ix(link.uses)];
      const engine::Edge& edge = network_.edges[e];
      const costs::Placements& from = state(link.from_list, edge.project_u, edge.u);
      const costs::Placements& to = state(link.to_list, edge.project_v, edge.v);
      if (link.use < 0) copy = kNone;
      if (from != to) {
        plan_.redistributions.push_back(redistribution(uses, from, to));
        if (link.use < 0) copy = plan_.redistributions.size() - 1;
      }
      if (link.use < 0) continue;
      const Redistribution::Use& use = uses.uses[ix(link.use)];
      if (from != to) {
        plan_.redistributions.back().uses.push_back(use);
      } else if (impl_.copy_variable[ix(link.uses)] >= 0 && copy != kNone) {
        plan_.redistributions[copy].uses.push_back(use);
      }
    }
  }

  const costs::Placements& state(std::int32_t list, std::int32_t projection, std::int32_t variable) const {
    return impl_.lists[ix(list)][ix(network_.projections[ix(projection)][ix(value_of(variable))])];
  }

  Redistribution redistribution(const PhaseUses& uses, const costs::Placements& from, const costs::Placements& to) {
    const costs::RedistributeTable& table = redistributor_.table(problem_.graph.meta(uses.value));
    Redistribution made{uses.value, uses.phase, from, to, {}, {}};
    made.steps = table.path(table.index_of(from), table.index_of(to));
    for (const costs::RedistributeStep& step : made.steps) plan_.communication_ps += step.time_ps;
    return made;
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

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
