#include "partition/build_network.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <cmath>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/comm.h"
#include "engine/solve.h"
#include "partition/held_memory.h"
#include "plan_checker.h"
#include "toy.h"

namespace autopar::partition {
namespace {

using costs::Placement;
using costs::Placements;
using testing::Arg;
using testing::OutputRole;
using testing::Phase;
using testing::PlanChecker;
using testing::residual_layers;
using testing::Role;
using testing::toy_problem;
using testing::ToyGraph;
using testing::ValueRef;

/// A problem with its network.
struct Built {
  explicit Built(Problem of, const std::vector<std::int32_t>& time_points = {})
      : problem(std::move(of)),
        redistributor(problem.cluster, problem.mesh),
        model(build_network(problem, redistributor, {time_points})) {}

  Plan plan(const engine::Assignment& assignment) const { return make_plan(problem, redistributor, model, assignment); }

  Plan best_plan() const {
    engine::Comm comm;
    return plan(engine::solve(model.network, {}, comm).assignment);
  }

  Problem problem;
  costs::Redistributor redistributor;
  ModelNetwork model;
};

Pin pin_all(const std::vector<Placement>& placements, std::string source) {
  Pin pin;
  for (std::size_t i = 0; i < placements.size(); ++i) pin.at[i] = placements[i];
  pin.source = std::move(source);
  return pin;
}

std::int32_t node_named(const costs::Graph& graph, const std::string& name) {
  const auto found =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const costs::Node& node) { return node.name == name; });
  return static_cast<std::int32_t>(found - graph.nodes.begin());
}

TEST(BuildNetworkTest, any_allowed_assignment_is_a_plan_that_adds_up) {
  for (const bool shared_weight : {false, true}) {
    const Built built(toy_problem(residual_layers(2, shared_weight), {2, 4}));
    std::mt19937 random(7);
    int num_checked = 0;
    for (int attempt = 0; attempt < 200; ++attempt) {
      engine::Assignment assignment;
      for (std::int32_t v = 0; v < built.model.network.num_variables(); ++v) {
        const auto size = static_cast<std::uint32_t>(built.model.network.domain(v).size());
        assignment.push_back(static_cast<std::int32_t>(random() % size));
      }
      const engine::Cost cost = engine::evaluate(built.model.network, assignment);
      if (cost >= engine::kForbidden) {
        EXPECT_THROW(built.plan(assignment), std::logic_error);
        continue;
      }
      const Plan plan = built.plan(assignment);
      EXPECT_EQ(plan.cost_ps, cost);
      PlanChecker(built.problem, built.redistributor, plan).check();
      ++num_checked;
    }
    EXPECT_GT(num_checked, 20);
  }
}

TEST(BuildNetworkTest, best_plan_adds_up) {
  const Built built(toy_problem(residual_layers(3), {4, 8}));
  PlanChecker(built.problem, built.redistributor, built.best_plan()).check();
}

// On one device nothing is communicated, so the step is compute and, behind it, the optimizer's pass.
TEST(BuildNetworkTest, a_trained_parameter_costs_its_optimizers_step) {
  const Built built(toy_problem(testing::linear_step(4096, 1024), {1}));
  const Plan plan = built.best_plan();
  EXPECT_EQ(plan.nodes[0].compute_ps,
            std::llround(28.0 * 1024 * 1024 / built.problem.cluster.device.memory_bandwidth * 1e12));
  EXPECT_EQ(plan.nodes[1].compute_ps, 0) << "x is no parameter";
  EXPECT_EQ(plan.cost_ps, plan.compute_ps);
  PlanChecker(built.problem, built.redistributor, plan).check();
}

/// y = relu(x) read by three ops that want y whole: sort-like ops without a rule.
costs::Graph three_readers() {
  ToyGraph toy;
  const ValueRef x = toy.input(Role::kInput, "x", {1024, 1024});
  for (const char* name : {"unknown.first", "unknown.second", "unknown.third"}) {
    toy.output(toy.op(name, {ToyGraph::ref(x)}, {1024, 1024}), OutputRole::kOutput);
  }
  return std::move(toy.graph);
}

TEST(BuildNetworkTest, readers_that_want_the_same_share_one_redistribution) {
  Problem problem = toy_problem(three_readers(), {4});
  problem.pins.nodes.resize(problem.graph.nodes.size());
  problem.pins.nodes[0] = pin_all({Placement::shard(0)}, "test");
  const Built built(std::move(problem));
  EXPECT_THAT(built.model.unknown_ops,
              ::testing::ElementsAre("aten.unknown.first", "aten.unknown.second", "aten.unknown.third"));
  const Plan plan = built.best_plan();
  PlanChecker(built.problem, built.redistributor, plan).check();
  ASSERT_EQ(plan.redistributions.size(), 1U);
  EXPECT_EQ(plan.redistributions[0].uses.size(), 3U);
  const costs::RedistributeTable& table = built.redistributor.table(built.problem.graph.meta({0, 0}));
  Placements cut;
  cut[0] = Placement::shard(0);
  EXPECT_EQ(plan.communication_ps, table.time_ps(table.index_of(cut), table.index_of({})));
}

TEST(BuildNetworkTest, a_value_used_twice_by_one_op_is_two_uses) {
  ToyGraph toy;
  const ValueRef x = toy.input(Role::kInput, "x", {64, 64});
  toy.output(toy.op("mul.Tensor", {ToyGraph::ref(x), ToyGraph::ref(x)}, {64, 64}), OutputRole::kOutput);
  const Built built(toy_problem(std::move(toy.graph), {4}));
  // x, its copy, the product, the output.
  EXPECT_EQ(built.model.network.num_variables(), 4);
  EXPECT_EQ(built.model.network.edges.size(), 4U);
  PlanChecker(built.problem, built.redistributor, built.best_plan()).check();
}

TEST(BuildNetworkTest, gradients_have_their_parameters_placements) {
  Problem problem = toy_problem(residual_layers(2), {4});
  problem.pins.outputs.resize(problem.graph.outputs.size());
  for (std::size_t i = 0; i < problem.graph.outputs.size(); ++i) {
    if (problem.graph.outputs[i].role != OutputRole::kGradient) continue;
    problem.pins.outputs[i] = pin_all({Placement::shard(1)}, "pinned gradient");
  }
  const Built built(std::move(problem));
  const Plan plan = built.best_plan();
  PlanChecker(built.problem, built.redistributor, plan).check();
  for (const char* name : {"layers.0.weight", "layers.1.weight"}) {
    const auto node = static_cast<std::size_t>(node_named(built.problem.graph, name));
    EXPECT_EQ(plan.nodes[node].outputs[0][0], Placement::shard(1));
  }
}

TEST(BuildNetworkTest, a_tied_parameter_has_one_placement_and_one_gradient) {
  const Built built(toy_problem(residual_layers(2, true), {2, 2}));
  const Plan plan = built.best_plan();
  PlanChecker(built.problem, built.redistributor, plan).check();
  const std::int32_t weight = node_named(built.problem.graph, "layers.0.weight");
  ASSERT_EQ(built.problem.graph.outputs.size(), 2U);
  EXPECT_EQ(built.problem.graph.outputs[1].of, weight);
  EXPECT_EQ(plan.outputs[1], plan.nodes[static_cast<std::size_t>(weight)].outputs[0]);
}

TEST(BuildNetworkTest, the_loss_is_replicated_unless_pinned) {
  Problem problem = toy_problem(residual_layers(1), {4});
  EXPECT_EQ(Built(problem).best_plan().outputs[0], Placements{});
  problem.pins.outputs.resize(problem.graph.outputs.size());
  problem.pins.outputs[0] = pin_all({Placement::partial()}, "test");
  EXPECT_EQ(Built(problem).best_plan().outputs[0][0], Placement::partial());
}

TEST(BuildNetworkTest, a_mutated_buffer_gets_its_new_value_where_it_is) {
  ToyGraph toy;
  const ValueRef buffer = toy.input(Role::kBuffer, "running_mean", {64, 64});
  const ValueRef x = toy.input(Role::kInput, "x", {64, 64});
  toy.output(toy.op("add.Tensor", {ToyGraph::ref(buffer), ToyGraph::ref(x)}, {64, 64}), OutputRole::kMutation, buffer);
  toy.output(buffer, OutputRole::kMutation, buffer);  // handed out as it came in
  Problem problem = toy_problem(std::move(toy.graph), {4});
  problem.pins.outputs.resize(2);
  problem.pins.outputs[0] = pin_all({Placement::shard(1)}, "test");
  const Built built(std::move(problem));
  const Plan plan = built.best_plan();
  PlanChecker(built.problem, built.redistributor, plan).check();
  EXPECT_EQ(plan.outputs[0][0], Placement::shard(1));
}

TEST(BuildNetworkTest, a_pin_that_cannot_hold_is_an_error_that_says_what_can) {
  Problem problem = toy_problem(three_readers(), {4});
  problem.pins.nodes.resize(problem.graph.nodes.size());
  problem.pins.nodes[1] = pin_all({Placement::shard(1)}, "file.json: nodes.unknown");
  try {
    const Built built(std::move(problem));
    FAIL() << "no error";
  } catch (const PinError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("/f/unknown.first.1"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("file.json: nodes.unknown"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("possible are: R"));
  }
}

TEST(BuildNetworkTest, pins_of_a_parameter_and_its_gradient_must_agree) {
  Problem problem = toy_problem(residual_layers(1), {4});
  problem.pins.nodes.resize(problem.graph.nodes.size());
  problem.pins.outputs.resize(problem.graph.outputs.size());
  problem.pins.nodes[0] = pin_all({Placement::shard(0)}, "first pin");
  problem.pins.outputs[1] = pin_all({Placement::shard(1)}, "second pin");
  try {
    const Built built(std::move(problem));
    FAIL() << "no error";
  } catch (const PinError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("layers.0.weight"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("first pin"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("second pin"));
  }
}

TEST(BuildNetworkTest, mesh_dims_of_one_device_change_nothing) {
  const std::int64_t expected = Built(toy_problem(residual_layers(2), {4})).best_plan().cost_ps;
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{4, 1}, {1, 4}, {1, 4, 1}}) {
    Problem problem = toy_problem(residual_layers(2), shape);
    problem.pins.nodes.resize(problem.graph.nodes.size());
    // A pin on a mesh dim of one device asks for nothing.
    problem.pins.nodes[0].at[shape[0] == 1 ? 0 : 1] = Placement::shard(1);
    problem.pins.nodes[0].source = "test";
    const Built built(std::move(problem));
    const Plan plan = built.best_plan();
    PlanChecker(built.problem, built.redistributor, plan).check();
    EXPECT_EQ(plan.cost_ps, expected);
  }
}

TEST(BuildNetworkTest, one_device_needs_no_communication) {
  const Built built(toy_problem(residual_layers(2), {1}));
  const Plan plan = built.best_plan();
  EXPECT_EQ(plan.communication_ps, 0);
  EXPECT_TRUE(plan.redistributions.empty());
}

TEST(BuildNetworkTest, memory_is_limited_where_it_is_looked_at) {
  Problem problem = toy_problem(residual_layers(2), {8});
  const costs::TensorMeta& weight = *problem.graph.nodes[0].outputs[0];
  // Half of one of two parameters with its gradient.
  const std::int64_t limit =
      (costs::parameter_bytes(weight, {}, problem.mesh, {}) + costs::local_bytes(weight, {}, problem.mesh)) / 2;
  problem.pins.memory_limit_bytes = limit;
  const std::int32_t last = Timeline::of(problem.graph).num_times() - 1;
  const auto bytes_at_last = [&](const Plan& plan) { return held_memory(problem, plan).bytes.back(); };
  EXPECT_GT(bytes_at_last(Built(problem).best_plan()), limit);
  const Built built(problem, {last});
  EXPECT_EQ(built.model.network.usage_limit, limit);
  const Plan plan = built.best_plan();
  PlanChecker(problem, built.redistributor, plan).check();
  EXPECT_LE(bytes_at_last(plan), limit);
  EXPECT_LE(plan.parameter_bytes, limit);
  problem.pins.memory_limit_bytes = 16;
  engine::Comm comm;
  EXPECT_EQ(engine::solve(Built(problem, {last}).model.network, {}, comm).status, engine::Status::kInfeasible);
}

TEST(BuildNetworkTest, layers_stay_alike_where_memory_is_looked_at) {
  // The same time point of the forward in both, and the last.
  const auto with_points = [](int num_layers) {
    Problem problem = toy_problem(residual_layers(num_layers), {2, 4});
    const Timeline timeline = Timeline::of(problem.graph);
    const std::int32_t last = timeline.num_times() - 1;
    std::int32_t last_of_forward = -1;
    for (std::size_t i = 0; i < problem.graph.nodes.size(); ++i) {
      const costs::Node& node = problem.graph.nodes[i];
      if (node.role == Role::kNone && node.phase == Phase::kForward) last_of_forward = static_cast<std::int32_t>(i);
    }
    return Built(std::move(problem), {timeline.run_time(last_of_forward), last}).model.network;
  };
  const engine::CostNetwork few = with_points(6);
  const engine::CostNetwork many = with_points(12);
  EXPECT_EQ(many.domains.size(), few.domains.size());
  EXPECT_EQ(many.tables.size(), few.tables.size());
  EXPECT_EQ(many.projections.size(), few.projections.size());
}

TEST(BuildNetworkTest, more_layers_bring_no_new_domains_or_tables) {
  const Built few(toy_problem(residual_layers(4), {4, 8}));
  const Built many(toy_problem(residual_layers(12), {4, 8}));
  EXPECT_EQ(many.model.network.domains.size(), few.model.network.domains.size());
  EXPECT_EQ(many.model.network.tables.size(), few.model.network.tables.size());
  EXPECT_EQ(many.model.network.projections.size(), few.model.network.projections.size());
}

TEST(BuildNetworkTest, layers_of_equal_structure_are_equal_in_the_network) {
  const Built built(toy_problem(residual_layers(5), {4, 8}));
  std::map<std::int32_t, std::vector<std::int32_t>> domains;
  for (const engine::Variable& variable : built.model.network.variables) {
    domains[variable.segment].push_back(variable.domain);
  }
  EXPECT_EQ(domains[2], domains[3]);
  EXPECT_EQ(domains[3], domains[4]);
  EXPECT_TRUE(std::is_sorted(built.model.network.variables.begin(), built.model.network.variables.end(),
                             [](const auto& a, const auto& b) { return a.segment < b.segment; }));
}

TEST(BuildNetworkTest, levels_get_finer_towards_single_values) {
  const Built built(toy_problem(residual_layers(1), {2, 2, 2}));
  for (const engine::Domain& domain : built.model.network.domains) {
    ASSERT_EQ(domain.levels.size(), 3U);
    for (std::size_t a = 0; a < domain.costs.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        EXPECT_NE(domain.levels[2][a], domain.levels[2][b]);
        for (std::size_t level = 1; level < 3; ++level) {
          if (domain.levels[level][a] != domain.levels[level][b]) continue;
          EXPECT_EQ(domain.levels[level - 1][a], domain.levels[level - 1][b]);
        }
      }
    }
  }
}

TEST(BuildNetworkTest, threads_do_not_change_the_network) {
  const auto build = [](std::size_t threads) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    return Built(toy_problem(residual_layers(3), {4, 8})).model.network;
  };
  const engine::CostNetwork one = build(1);
  const engine::CostNetwork four = build(4);
  EXPECT_EQ(one.domains, four.domains);
  EXPECT_EQ(one.tables, four.tables);
  EXPECT_EQ(one.projections, four.projections);
  ASSERT_EQ(one.edges.size(), four.edges.size());
  for (std::size_t i = 0; i < one.edges.size(); ++i) {
    EXPECT_EQ(one.edges[i].table, four.edges[i].table);
    EXPECT_EQ(one.edges[i].project_u, four.edges[i].project_u);
    EXPECT_EQ(one.edges[i].project_v, four.edges[i].project_v);
  }
}

costs::DeclaredStrategy listed(const costs::Node& node, Placement each) {
  return {std::vector(node.inputs.size(), each), std::vector(node.outputs.size(), each)};
}

/// Residual layers whose relus are an author's own: forward and backward choose from lists of three and are tied.
costs::Graph tied_layers(int num_layers) {
  costs::Graph graph = residual_layers(num_layers);
  std::map<std::string, std::int32_t> forward;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    costs::Node& node = graph.nodes[i];
    if (!node.module.starts_with("layers.")) continue;
    if (node.op == "aten.relu.default") {
      forward[node.module] = static_cast<std::int32_t>(i);
      for (const Placement each : {Placement::shard(0), Placement::shard(1), Placement::replicate()}) {
        node.strategies.push_back(listed(node, each));
      }
    } else if (node.op == "aten.threshold_backward.default") {
      node.same_strategy_as = forward.at(node.module);
      for (const Placement each : {Placement::shard(1), Placement::replicate(), Placement::shard(0)}) {
        node.strategies.push_back(listed(node, each));
      }
    }
  }
  return graph;
}

TEST(BuildNetworkTest, tied_nodes_choose_the_same_entries_and_layers_stay_alike) {
  const Built built(toy_problem(tied_layers(4), {2, 4}));
  const Plan plan = built.best_plan();
  PlanChecker(built.problem, built.redistributor, plan).check();
  int num_ties = 0;
  for (std::size_t i = 0; i < built.problem.graph.nodes.size(); ++i) {
    const costs::Node& node = built.problem.graph.nodes[i];
    if (node.same_strategy_as < 0) continue;
    ++num_ties;
    const auto other = static_cast<std::size_t>(node.same_strategy_as);
    for (int dim = 0; dim < 2; ++dim) {
      bool is_entry = false;
      for (std::size_t entry = 0; entry < 3; ++entry) {
        is_entry |= node.strategies[entry].outputs[0] == plan.nodes[i].outputs[0][dim] &&
                    built.problem.graph.nodes[other].strategies[entry].outputs[0] == plan.nodes[other].outputs[0][dim];
      }
      EXPECT_TRUE(is_entry) << node.key << " on mesh dim " << dim;
    }
  }
  EXPECT_EQ(num_ties, 4);
  const Built many(toy_problem(tied_layers(12), {2, 4}));
  EXPECT_EQ(many.model.network.domains.size(), built.model.network.domains.size());
  EXPECT_EQ(many.model.network.tables.size(), built.model.network.tables.size());
  EXPECT_EQ(many.model.network.projections.size(), built.model.network.projections.size());
}

/// y = own(x) with what the model lists for it.
Problem own_op(std::vector<std::int64_t> mesh, const std::vector<costs::DeclaredStrategy>& strategies) {
  ToyGraph toy;
  const ValueRef x = toy.input(Role::kInput, "x", {6, 64});
  toy.output(toy.op("own.op", {ToyGraph::ref(x)}, {6, 64}), OutputRole::kOutput);
  toy.graph.nodes[1].strategies = strategies;
  return toy_problem(std::move(toy.graph), std::move(mesh));
}

costs::DeclaredStrategy rows(std::vector<std::string> mesh_dims, bool even = false) {
  return {{Placement::shard(0)}, {Placement::shard(0)}, even, std::move(mesh_dims)};
}

std::string error_of(const Problem& problem) {
  try {
    const Built built(problem);
  } catch (const PinError& error) {
    return error.what();
  }
  return "";
}

TEST(BuildNetworkTest, listed_strategies_replace_the_fallback) {
  const Built built(own_op({2, 3}, {rows({"dim0"}), {{Placement::replicate()}, {Placement::replicate()}}}));
  EXPECT_THAT(built.model.unknown_ops, ::testing::IsEmpty());
  EXPECT_EQ(built.model.network.domain(1).size(), 2);  // on dim1, only the entry for all mesh dims
}

TEST(BuildNetworkTest, lists_of_which_nothing_is_possible_name_the_mesh_dim_and_the_reason) {
  EXPECT_THAT(error_of(own_op({2, 3}, {rows({"ep", "dim0"})})),
              ::testing::AllOf(::testing::HasSubstr("\"/f/own.op.1\" (aten.own.op)"),
                               ::testing::HasSubstr("none is for mesh dim \"dim1\"; they are for \"dim0\", \"ep\"")));
  EXPECT_THAT(error_of(own_op({2, 8}, {rows({})})),
              ::testing::HasSubstr("along mesh dim \"dim1\" (8 devices) pieces would be empty, or uneven"));
  EXPECT_THAT(error_of(own_op({4}, {rows({}, true)})), ::testing::HasSubstr("along mesh dim \"dim0\" (4 devices)"));
  EXPECT_THAT(error_of(own_op({2, 2}, {rows({}, true)})), ::testing::HasSubstr("along all mesh dims together"));
  EXPECT_EQ(error_of(own_op({2, 3}, {rows({}, true)})), "");
  EXPECT_EQ(error_of(own_op({1, 2}, {rows({"dim1"})})), "");  // a mesh dim of one device needs no strategy
}

TEST(BuildNetworkTest, ties_that_cannot_hold_name_both_nodes_and_their_pins) {
  Problem problem = toy_problem(tied_layers(1), {4});
  problem.pins.nodes.resize(problem.graph.nodes.size());
  const auto tied = std::find_if(problem.graph.nodes.begin(), problem.graph.nodes.end(),
                                 [](const costs::Node& node) { return node.same_strategy_as >= 0; });
  const auto backward = static_cast<std::size_t>(tied - problem.graph.nodes.begin());
  problem.pins.nodes[backward] = pin_all({Placement::shard(0)}, "c.json: nodes.backward");
  EXPECT_EQ(error_of(problem), "");  // the third entry, in which the forward is whole
  const auto forward = static_cast<std::size_t>(tied->same_strategy_as);
  problem.pins.nodes[forward] = pin_all({Placement::shard(0)}, "c.json: nodes.forward");
  EXPECT_THAT(error_of(problem), ::testing::AllOf(::testing::HasSubstr("\"" + tied->key + "\" must choose the same"),
                                                  ::testing::HasSubstr(problem.graph.nodes[forward].key),
                                                  ::testing::HasSubstr("with c.json: nodes.backward and c.json: n")));
}

TEST(BuildNetworkTest, a_constraint_can_be_pinned_and_is_free) {
  ToyGraph toy;
  const ValueRef x = toy.input(Role::kInput, "x", {64, 64});
  toy.output(toy.op("constrain.default", {ToyGraph::ref(x)}, {64, 64}), OutputRole::kOutput);
  toy.graph.nodes[1].op = "autopar.constrain.default";
  Problem problem = toy_problem(std::move(toy.graph), {4});
  problem.pins.nodes.resize(2);
  problem.pins.nodes[1] = pin_all({Placement::shard(1)}, "test");
  const Plan plan = Built(std::move(problem)).best_plan();
  EXPECT_EQ(plan.nodes[1].outputs[0][0], Placement::shard(1));
  EXPECT_EQ(plan.nodes[1].inputs[0][0], Placement::shard(1));
  EXPECT_EQ(plan.compute_ps, 0);
}

}  // namespace
}  // namespace autopar::partition
