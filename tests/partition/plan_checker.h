#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "costs/compute.h"
#include "costs/memory.h"
#include "partition/build_network.h"
#include "partition/held_memory.h"
#include "partition/plan.h"

namespace autopar::partition::testing {

/// Follows every value of a plan from its producer to its readers, knowing only plan and graph, and adds up what it
/// costs. Fails where a reader does not get what it wants or something is not used. Readers in the backward start from
/// what is saved of a value of the forward, if the plan saves another placement of it than is given: cut for that, or
/// what the forward has made for itself.
class PlanChecker {
 public:
  PlanChecker(const Problem& problem, const costs::Redistributor& redistributor, const Plan& plan)
      : problem_(problem), redistributor_(redistributor), plan_(plan) {}

  void check() {
    check_redistributions();
    check_readers();
    check_saved();
    check_totals();
    check_memory();
  }

 private:
  using Key = std::tuple<costs::ValueRef, costs::Phase>;

  std::size_t at(std::int32_t i) const { return static_cast<std::size_t>(i); }

  const costs::Placements& given(costs::ValueRef value) const {
    return plan_.nodes[at(value.node)].outputs[at(value.output)];
  }

  /// What readers in `phase` start from.
  const costs::Placements& there(costs::ValueRef value, costs::Phase phase) const {
    const auto saved = saved_.find(value);
    return phase == costs::Phase::kBackward && saved != saved_.end() ? saved->second : given(value);
  }

  void add_saved(const Redistribution& move) {
    EXPECT_EQ(move.phase, costs::Phase::kForward);
    EXPECT_EQ(problem_.graph.nodes[at(move.value.node)].phase, costs::Phase::kForward);
    EXPECT_TRUE(saved_.emplace(move.value, move.to).second) << "saved twice";
  }

  /// What is saved is read in the backward, and is what the plan says.
  void check_saved() {
    const std::vector<PhaseUses> uses = collect_uses(problem_.graph);
    ASSERT_EQ(plan_.saved.size(), uses.size());
    std::size_t num_read = 0;
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const bool is_saved = uses[i].phase == costs::Phase::kBackward && saved_.contains(uses[i].value);
      num_read += is_saved ? 1U : 0U;
      EXPECT_TRUE(plan_.saved[i].has_value() || plan_.kept[i].has_value() || !is_saved);
      if (uses[i].phase == costs::Phase::kForward) continue;
      const costs::Placements& kept = there(uses[i].value, costs::Phase::kBackward);
      EXPECT_EQ(plan_.saved[i] ? *plan_.saved[i] : plan_.kept[i].value_or(kept), kept);
    }
    EXPECT_EQ(num_read, saved_.size()) << "something is saved for nobody";
  }

  void check_redistributions() {
    std::map<Key, std::set<costs::Placements>> made;
    for (const Redistribution& move : plan_.redistributions) {
      const Key key{move.value, move.phase};
      EXPECT_NE(move.from, move.to);
      EXPECT_TRUE(move.from == there(move.value, move.phase) || made[key].contains(move.from)) << "starts from nothing";
      made[key].insert(move.to);
      if (move.is_saved) add_saved(move);
      costs::Placements now = move.from;
      std::int64_t time_ps = 0;
      for (const costs::RedistributeStep& step : move.steps) {
        EXPECT_EQ(step.from, now);
        now = step.to;
        time_ps += step.time_ps;
      }
      EXPECT_EQ(now, move.to);
      const costs::RedistributeTable& table = redistributor_.table(problem_.graph.meta(move.value));
      EXPECT_EQ(time_ps, table.time_ps(table.index_of(move.from), table.index_of(move.to)));
      communication_ps_ += time_ps;
      for (const Redistribution::Use& use : move.uses) {
        EXPECT_TRUE(gets_.emplace(std::pair(use.node, use.input), &move).second) << "delivered twice";
      }
    }
  }

  void check_readers() {
    const auto& nodes = problem_.graph.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      ASSERT_EQ(plan_.nodes[i].inputs.size(), nodes[i].inputs.size());
      for (std::size_t input = 0; input < nodes[i].inputs.size(); ++input) {
        check_reader({static_cast<std::int32_t>(i), static_cast<std::int32_t>(input)}, nodes[i].inputs[input],
                     nodes[i].phase, plan_.nodes[i].inputs[input]);
      }
    }
    for (std::size_t i = 0; i < problem_.graph.outputs.size(); ++i) {
      const costs::GraphOutput& output = problem_.graph.outputs[i];
      const Redistribution* move = delivered({static_cast<std::int32_t>(i), -1});
      EXPECT_EQ(move ? move->to : there(output.value, output_phase(output)), plan_.outputs[i]);
      if (output.of >= 0) {
        EXPECT_EQ(plan_.outputs[i], plan_.nodes[at(output.of)].outputs[0]);
      }
    }
    EXPECT_EQ(seen_, gets_.size()) << "something is delivered to nobody";
  }

  /// A gradient is handed out in the backward, anything else in the phase that makes it.
  costs::Phase output_phase(const costs::GraphOutput& output) const {
    if (output.role == costs::OutputRole::kGradient) return costs::Phase::kBackward;
    const costs::Node& producer = problem_.graph.nodes[at(output.value.node)];
    return producer.role == costs::Role::kNone ? producer.phase : costs::Phase::kForward;
  }

  const Redistribution* delivered(Redistribution::Use use) {
    const auto found = gets_.find(std::pair(use.node, use.input));
    if (found == gets_.end()) return nullptr;
    ++seen_;
    return found->second;
  }

  void check_reader(Redistribution::Use use, costs::ValueRef value, costs::Phase phase,
                    const costs::Placements& wanted) {
    const Redistribution* move = delivered(use);
    EXPECT_EQ(move ? move->to : there(value, phase), wanted) << problem_.graph.nodes[at(use.node)].key;
    if (!move) return;
    EXPECT_EQ(move->value, value);
    EXPECT_EQ(move->phase, phase);
  }

  void check_totals() {
    std::int64_t compute_ps = 0;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      const costs::Node& node = problem_.graph.nodes[i];
      const NodeChoice& choice = plan_.nodes[i];
      compute_ps += choice.compute_ps;
      communication_ps_ += costs::total_ps(choice.all_reduces);
      if (node.role == costs::Role::kNone) {
        EXPECT_EQ(choice.compute_ps,
                  costs::compute_ps(problem_.graph, node, {choice.inputs, choice.outputs, {}, choice.programs},
                                    problem_.mesh, problem_.cluster));
      }
      if (node.role == costs::Role::kParameter) {
        bytes += costs::parameter_bytes(*node.outputs[0], choice.outputs[0], problem_.mesh, problem_.pins.optimizer);
      }
    }
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
      const costs::GraphOutput& output = problem_.graph.outputs[i];
      if (output.role != costs::OutputRole::kGradient) continue;
      bytes += costs::local_bytes(problem_.graph.meta(output.value), plan_.outputs[i], problem_.mesh);
    }
    EXPECT_EQ(plan_.compute_ps, compute_ps);
    EXPECT_EQ(plan_.communication_ps, communication_ps_);
    if (!problem_.has_overlap) {
      EXPECT_EQ(plan_.cost_ps, compute_ps + communication_ps_);
    }
    EXPECT_EQ(plan_.parameter_bytes, bytes);
  }

  void check_memory() {
    const PlanMemory& memory = plan_.memory;
    const HeldMemory held = held_memory(problem_, plan_);
    EXPECT_EQ(memory.peak_bytes, *std::max_element(held.bytes.begin(), held.bytes.end()));
    EXPECT_EQ(memory.peak_bytes, std::accumulate(memory.peak_parts.begin(), memory.peak_parts.end(), std::int64_t{0}));
    ASSERT_EQ(memory.node_bytes.size(), plan_.nodes.size());
    const std::int64_t most_of_nodes = *std::max_element(memory.node_bytes.begin(), memory.node_bytes.end());
    if (memory.peak_node < 0) {
      EXPECT_LT(most_of_nodes, memory.peak_bytes);
      EXPECT_EQ(held.bytes.back(), memory.peak_bytes);
    } else {
      EXPECT_EQ(memory.node_bytes[at(memory.peak_node)], memory.peak_bytes);
      EXPECT_EQ(most_of_nodes, memory.peak_bytes);
    }
  }

  const Problem& problem_;
  const costs::Redistributor& redistributor_;
  const Plan& plan_;
  std::map<costs::ValueRef, costs::Placements> saved_;
  std::map<std::pair<std::int32_t, std::int32_t>, const Redistribution*> gets_;
  std::size_t seen_ = 0;
  std::int64_t communication_ps_ = 0;
};

}  // namespace autopar::partition::testing
