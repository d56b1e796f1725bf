#include <cstddef>
#include <stdexcept>
#include <string>

#include "costs/memory.h"
#include "engine/index.h"
#include "partition/build_network.h"
#include "partition/held_memory.h"
#include "partition/model_network.h"
#include "partition/overlap.h"
#include "partition/pipelines.h"

namespace autopar::partition {
namespace {

using engine::ix;

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
    add_nodes();
    add_outputs();
    add_redistributions();
    plan_.parameter_bytes = parameter_bytes();
    check_memory();
    const std::int64_t parts_ps = plan_.compute_ps + plan_.communication_ps;
    if (parts_ps != expected) {
      throw std::logic_error("the plan's parts cost " + std::to_string(parts_ps) + " ps, its assignment " +
                             std::to_string(expected));
    }
    if (impl_.windows) pipeline();
    plan_.cost_ps = impl_.windows ? step_time(plan_, impl_.uses, *impl_.windows).total_ps() : parts_ps;
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

  void pipeline() {
    const Pipelines pipelines(problem_, impl_.uses);
    PipelineTimer timer(pipelines, [this](std::int32_t node) {
      return &impl_.choices[ix(node)]->strategies[ix(value_of(impl_.node_variable[ix(node)]))];
    });
    const UsesOfValues of_values = uses_of_values(impl_.uses);
    for (Redistribution& one : plan_.redistributions) {
      const costs::RedistributeStep* step = step_in_pieces(one.steps);
      if (step == nullptr || one.flight.exists() || one.is_saved) continue;
      const std::int32_t entry = of_values.at({one.value.node, one.value.output}).in(one.phase);
      one.pipelined_ps = timer.hidden_ps(entry, one.uses, *step);
    }
  }

  /// What the network counts at its time points is what the plan holds there.
  void check_memory() {
    const HeldMemory memory = held_memory(problem_, plan_);
    for (std::size_t p = 0; p < impl_.time_points.size(); ++p) {
      const std::int64_t counted = engine::usage_at(network_, assignment_, static_cast<std::int32_t>(p));
      const std::int64_t held = memory.bytes[ix(impl_.time_points[p])];
      if (counted == held) continue;
      throw std::logic_error("the plan holds " + std::to_string(held) + " bytes at time point " +
                             std::to_string(impl_.time_points[p]) + ", its assignment " + std::to_string(counted));
    }
    plan_.memory = plan_memory(problem_, plan_, memory);
  }

  /// Parameters, gradients and optimizer state.
  std::int64_t parameter_bytes() const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      const costs::Node& node = problem_.graph.nodes[i];
      if (node.role != costs::Role::kParameter) continue;
      sum +=
          costs::parameter_bytes(*node.outputs[0], plan_.nodes[i].outputs[0], problem_.mesh, problem_.pins.optimizer);
    }
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
      const costs::GraphOutput& output = problem_.graph.outputs[i];
      if (output.role != costs::OutputRole::kGradient) continue;
      sum += costs::local_bytes(problem_.graph.meta(output.value), plan_.outputs[i], problem_.mesh);
    }
    return sum;
  }

  // Links come in the order that the plan wants: by value and phase what is kept, what is saved, the copy, then its
  // readers.
  void add_redistributions() {
    plan_.saved.resize(impl_.uses.size());
    plan_.kept.resize(impl_.uses.size());
    for (const PhaseUses& uses : impl_.uses) {
      plan_.copies.push_back(plan_.nodes[ix(uses.value.node)].outputs[ix(uses.value.output)]);
    }
    std::size_t group = 0;  // the first entry of the current value and phase that its readers can share
    bool is_moved = false;  // whether that entry makes what they start from
    for (std::size_t i = 0; i < impl_.links.size(); ++i) {
      const ModelNetwork::Impl::Link& link = impl_.links[i];
      const PhaseUses& uses = impl_.uses[ix(link.uses)];
      const costs::Placements from = unmarked(state(link.from));
      const costs::Placements to = unmarked(state(link.to));
      if (i == 0 || impl_.links[i - 1].uses != link.uses) is_moved = false;
      if (i == 0 || impl_.links[i - 1].uses != link.uses || impl_.links[i - 1].use == PointUsage::kSaved) {
        group = plan_.redistributions.size();
      }
      if (link.use == PointUsage::kKept) {
        is_moved = from != to;
        add_kept(link, from, to);
      } else if (link.use == PointUsage::kSaved) {
        plan_.saved[ix(link.uses)] = plan_.copies[ix(link.uses)] = to;
        if (from != to) add_saved(uses, from, to);
        group = plan_.redistributions.size();
      } else if (link.use == PointUsage::kCopy) {
        plan_.copies[ix(link.uses)] = to;
        if (from != to) {
          is_moved = true;
          group = plan_.redistributions.size();
          add_entry(uses, from, to).flight = flight(link);
        }
      } else if (from != to && !is_moved && is_shared(i)) {
        plan_.copies[ix(link.uses)] = to;
        if (plan_.redistributions.size() == group) add_entry(uses, from, to);
        plan_.redistributions.back().uses.push_back(uses.uses[ix(link.use)]);
      } else if (from != to) {
        Redistribution& made = add_entry(uses, from, to);
        made.uses.push_back(uses.uses[ix(link.use)]);
        made.flight = flight(link);
      } else if (is_moved) {
        plan_.redistributions[group].uses.push_back(uses.uses[ix(link.use)]);
      }
    }
  }

  Flight flight(const ModelNetwork::Impl::Link& link) const {
    return impl_.may_fly(link, state(link.from)) ? impl_.flight(link) : Flight{};
  }

  /// For the forward of `link` and the backward, which is the next entry of uses.
  void add_kept(const ModelNetwork::Impl::Link& link, const costs::Placements& from, const costs::Placements& to) {
    for (const std::size_t uses : {ix(link.uses), ix(link.uses) + 1}) plan_.kept[uses] = plan_.copies[uses] = to;
    if (from == to) return;
    Redistribution& made = add_entry(impl_.uses[ix(link.uses)], from, to);
    made.is_saved = true;
    made.flight = flight(link);
  }

  /// Where something is kept already, that is what this cuts, and need not be kept itself.
  void add_saved(const PhaseUses& uses, const costs::Placements& from, const costs::Placements& to) {
    std::vector<Redistribution>& earlier = plan_.redistributions;
    for (std::size_t i = earlier.size(); i-- > 0 && earlier[i].value == uses.value;) earlier[i].is_saved = false;
    Redistribution& made = add_entry(uses, from, to);
    made.phase = costs::Phase::kForward;
    made.is_saved = true;
  }

  /// Whether all readers of a link's value do the same for free. Each by itself holds less, all at once run less: so
  /// they do where memory is not looked at.
  bool is_shared(std::size_t index) const {
    const ModelNetwork::Impl::Link& link = impl_.links[index];
    if (!impl_.time_points.empty()) return false;
    std::size_t first = index;
    while (first > 0 && impl_.links[first - 1].uses == link.uses && impl_.links[first - 1].use >= 0) --first;
    const std::size_t num_readers = impl_.uses[ix(link.uses)].uses.size();
    const costs::Placements& from = state(link.from);
    const costs::Placements& to = state(link.to);
    for (std::size_t i = first; i < first + num_readers; ++i) {
      if (i >= impl_.links.size() || impl_.links[i].uses != link.uses) return false;
      if (state(impl_.links[i].from) != from || state(impl_.links[i].to) != to) return false;
    }
    const costs::RedistributeTable& table = redistributor_.table(problem_.graph.meta(impl_.uses[ix(link.uses)].value));
    return num_readers > 1 && table.time_ps(table.index_of(from), table.index_of(to)) == 0;
  }

  static std::int64_t time_ps(const Redistribution& redistribution) {
    std::int64_t sum = 0;
    for (const costs::RedistributeStep& step : redistribution.steps) sum += step.time_ps;
    return sum;
  }

  const costs::Placements& state(const ModelNetwork::Impl::LinkEnd& end) const {
    return impl_.lists[ix(end.list)][ix(network_.projections[ix(end.projection)][ix(value_of(end.variable))])];
  }

  Redistribution& add_entry(const PhaseUses& uses, const costs::Placements& from, const costs::Placements& to) {
    const costs::RedistributeTable& table = redistributor_.table(problem_.graph.meta(uses.value));
    Redistribution& made =
        plan_.redistributions.emplace_back(Redistribution{uses.value, uses.phase, from, to, {}, {}, false});
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
