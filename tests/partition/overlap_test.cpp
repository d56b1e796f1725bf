#include "partition/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "costs/compute.h"
#include "partition/overlap_networks.h"
#include "partition/plan_search.h"
#include "random_assignment.h"
#include "toy.h"

namespace autopar::partition {
namespace {

using testing::random_assignment;
using testing::residual_layers;
using testing::toy_problem;

class OverlapTest : public ::testing::TestWithParam<std::tuple<std::vector<std::int64_t>, double>> {
 protected:
  OverlapTest() : problem_(toy_problem(residual_layers(4), std::get<0>(GetParam()))) {
    problem_.has_overlap = true;
    problem_.keep_dominated = true;
    problem_.pins.memory_limit_bytes = std::int64_t{1} << 40;
    problem_.cluster.device.matmul_overlap = std::get<1>(GetParam());
  }

  Problem problem_;
};

TEST_P(OverlapTest, every_network_bounds_the_time_of_every_plan) {
  const costs::Redistributor redistributor(problem_.cluster, problem_.mesh);
  const ModelNetwork model = build_network(problem_, redistributor);
  const OverlapNetworks networks(problem_, redistributor, model);
  OverlapNetworks::Multipliers multipliers = networks.even(0);
  std::mt19937 random(7);
  int num_hiding = 0;
  for (int i = 0; i < 60; ++i) {
    const engine::Assignment assignment = random_assignment(model.network, random);
    const Plan plan = make_plan(problem_, redistributor, model, assignment);
    const StepTime time = step_time(plan, model.impl->uses, *model.impl->windows);
    EXPECT_EQ(plan.cost_ps, time.total_ps());
    EXPECT_EQ(networks.time(assignment).total_ps(), plan.cost_ps);
    EXPECT_LE(plan.cost_ps, plan.compute_ps + plan.communication_ps);
    num_hiding += plan.cost_ps < plan.compute_ps + plan.communication_ps ? 1 : 0;
    for (std::int64_t& share : multipliers.shares) {
      share = static_cast<std::int64_t>(random() % (OverlapNetworks::kWhole + 1));
    }
    networks.ascend(random_assignment(model.network, random), 128, multipliers);
    EXPECT_LE(engine::evaluate(networks.priced(multipliers), assignment), plan.cost_ps);
  }
  EXPECT_GT(num_hiding, 20);
}

TEST_P(OverlapTest, no_plan_is_better_than_the_bound_of_the_search) {
  const costs::Redistributor redistributor(problem_.cluster, problem_.mesh);
  const ModelNetwork model = build_network(problem_, redistributor);
  engine::Comm comm;
  SharedSolver solver({}, comm);
  const PlanSearchResult found = search_plan({problem_, redistributor, &model}, {}, solver);
  ASSERT_TRUE(found.plan);
  EXPECT_LE(found.bound, found.plan->cost_ps);
  EXPECT_LE(static_cast<double>(found.plan->cost_ps - found.bound), 0.2 * static_cast<double>(found.plan->cost_ps));
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const Plan plan = make_plan(problem_, redistributor, model, random_assignment(model.network, random));
    EXPECT_GE(plan.cost_ps, found.bound);
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, OverlapTest,
                         ::testing::Combine(::testing::Values(std::vector<std::int64_t>{8},
                                                              std::vector<std::int64_t>{4, 2}),
                                            ::testing::Values(0, 0.5, 1)));

TEST(CommunicationTimeTest, all_but_the_last_collective_of_a_flight_is_exposed) {
  using Kind = costs::RedistributeStep::Kind;
  const std::vector<costs::RedistributeStep> steps = {{Kind::kAllToAll, 1, {}, {}, 64, 50, 5},
                                                      {Kind::kAllGather, 2, {}, {}, 64, 90, 8},
                                                      {Kind::kSlice, 1, {}, {}, 0, 3, 0}};
  const CommunicationTime flying = communication_time(steps, true);
  EXPECT_EQ(flying.exposed_ps, 50 + 3);
  EXPECT_EQ(flying.hideable_ps, 90 - 8);
  ASSERT_TRUE(flying.bucket);
  EXPECT_EQ(flying.startup_ps, 8);
  EXPECT_EQ(communication_time(steps, false).exposed_ps, 50 + 90 + 3);
}

/// One matmul of rows x width by width x width on 8 devices, its left matrix gathered or its output scattered.
class PipelinesTest : public ::testing::TestWithParam<std::int64_t> {
 protected:
  using Kind = costs::RedistributeStep::Kind;

  PipelinesTest() : problem_(toy_problem(testing::linear_step(65536, GetParam()), {8})) {
    problem_.cluster.device.matmul_overlap = 1;
    for (std::size_t i = 0; i < problem_.graph.nodes.size() && matmul_ < 0; ++i) {
      if (costs::left_matrix(problem_.graph.nodes[i].op) >= 0) matmul_ = static_cast<std::int32_t>(i);
    }
  }

  std::int64_t hidden_ps(Kind kind, const costs::Strategy& strategy, std::int64_t time_ps) const {
    const costs::Placements rows{{costs::Placement::shard(0)}};
    costs::RedistributeStep step{kind, 1, rows, {}, 0, time_ps, 0};
    if (kind == Kind::kReduceScatter) step.from = {{costs::Placement::partial()}}, step.to = rows;
    const std::vector<PhaseUses> uses = collect_uses(problem_.graph);
    return Pipelines(problem_, uses).hidden_ps(step, {matmul_}, [&](std::int32_t) { return &strategy; });
  }

  Problem problem_;
  std::int32_t matmul_ = -1;
};

TEST_P(PipelinesTest, a_collective_hides_no_longer_than_the_matmul_takes) {
  costs::Strategy columns;
  columns.inputs = {{}, {{costs::Placement::shard(1)}}};
  columns.outputs = {{{costs::Placement::shard(1)}}};
  const costs::Node& node = problem_.graph.nodes[static_cast<std::size_t>(matmul_)];
  const std::int64_t whole_ps = costs::compute_ps(problem_.graph, node, columns, problem_.mesh, problem_.cluster);
  EXPECT_LT(hidden_ps(Kind::kAllGather, columns, 100 * whole_ps), whole_ps * 7 / 8 + 1);
  EXPECT_GT(hidden_ps(Kind::kAllGather, columns, 100 * whole_ps), whole_ps / 2);
  EXPECT_LE(hidden_ps(Kind::kAllGather, columns, whole_ps / 2), whole_ps / 2);
  EXPECT_GT(hidden_ps(Kind::kAllGather, columns, whole_ps / 2), whole_ps / 4);
  EXPECT_EQ(hidden_ps(Kind::kReduceScatter, columns, whole_ps), 0) << "it gives no sum";
  costs::Strategy whole = columns;
  whole.inputs[1] = whole.outputs[0] = {};
  EXPECT_EQ(hidden_ps(Kind::kAllGather, whole, whole_ps), 0) << "the right matrix is not cut";
}

INSTANTIATE_TEST_SUITE_P(Widths, PipelinesTest, ::testing::Values(4096, 8192));

}  // namespace
}  // namespace autopar::partition
