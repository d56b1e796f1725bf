#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "costs/compute.h"
#include "costs/memory.h"
#include "partition/build_network.h"
#include "partition/plan.h"

namespace autopar::partition::testing {

/// Follows every value of a plan from its producer to its readers, knowing only plan and graph, and adds up what it
/// costs. Fails where a reader does not get what it wants or something is not used.
class PlanChecker {
 public:
  PlanChecker(const Problem& problem, const costs::Redistributor& redistributor, const Plan& plan)
      : problem_(problem), redistributor_(redistributor), plan_(plan) {}

  void check() {
    check_redistributions();
    check_readers();
    check_totals();
  }

 private:
  using Key = std::tuple<costs::ValueRef, costs::Phase>;

  std::size_t at(std::int32_t i) const { return static_cast<std::size_t>(i); }

  const costs::Placements& given(costs::ValueRef value) const {
    return plan_.nodes[at(value.node)].outputs[at(value.output)];
  }

  void check_redistributions() {
    std::map<Key, std::set<costs::Placements>> made;
    for (const Redistribution& move : plan_.redistributions) {
      const Key key{move.value, move.phase};
      EXPECT_NE(move.from, move.to);
      EXPECT_TRUE(move.from == given(move.value) || made[key].contains(move.from)) << "starts from nothing";
      made[key].insert(move.to);
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
      EXPECT_EQ(move ? move->to : given(output.value), plan_.outputs[i]);
      if (output.of >= 0) {
        EXPECT_EQ(plan_.outputs[i], plan_.nodes[at(output.of)].outputs[0]);
      }
    }
    EXPECT_EQ(seen_, gets_.size()) << "something is delivered to nobody";
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
    EXPECT_EQ(move ? move->to : given(value), wanted) << problem_.graph.nodes[at(use.node)].key;
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
        EXPECT_EQ(choice.compute_ps, costs::compute_ps(problem_.graph, node, {choice.inputs, choice.outputs, {}},
                                                       problem_.mesh, problem_.cluster));
      }
      if (node.role == costs::Role::kParameter) {
        bytes += costs::parameter_bytes(*node.outputs[0], choice.outputs[0], problem_.mesh, problem_.pins.optimizer);
      }
    }
    EXPECT_EQ(plan_.compute_ps, compute_ps);
    EXPECT_EQ(plan_.communication_ps, communication_ps_);
    EXPECT_EQ(plan_.cost_ps, compute_ps + communication_ps_);
    EXPECT_EQ(plan_.parameter_bytes, bytes);
  }

  const Problem& problem_;
  const costs::Redistributor& redistributor_;
  const Plan& plan_;
  std::map<std::pair<std::int32_t, std::int32_t>, const Redistribution*> gets_;
  std::size_t seen_ = 0;
  std::int64_t communication_ps_ = 0;
};

}  // namespace autopar::partition::testing
