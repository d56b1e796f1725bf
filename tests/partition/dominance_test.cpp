#include "partition/dominance.h"

#include <gtest/gtest.h>

#include <random>

#include "costs/rules/rule.h"
#include "toy.h"

namespace autopar::partition {
namespace {

using costs::Placements;
using costs::RedistributeTable;
using costs::Strategy;
using testing::linear_step;
using testing::toy_problem;

/// Whether `other` with redistributions around it costs no more than `strategy`, and leaves alone what counts as
/// memory.
bool stands_in(const costs::Graph& graph, const costs::Node& node, const costs::Redistributor& redistributor,
               const NodeContext& context, const Strategy& strategy, engine::Cost price, const Strategy& other,
               engine::Cost other_price) {
  if (context.inputs_count && strategy.inputs != other.inputs) return false;
  if (context.outputs_count && strategy.outputs != other.outputs) return false;
  const auto time_ps = [&](const costs::TensorMeta& tensor, const Placements& from, const Placements& to) {
    const RedistributeTable& table = redistributor.table(tensor);
    return table.time_ps(table.index_of(from), table.index_of(to));
  };
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    other_price += time_ps(graph.meta(node.inputs[i]), strategy.inputs[i], other.inputs[i]);
  }
  return other_price + time_ps(*node.outputs[0], other.outputs[0], strategy.outputs[0]) <= price;
}

TEST(DominanceTest, drops_exactly_what_another_can_stand_in_for) {
  const Problem problem = toy_problem(linear_step(4096, 1024), {2, 4});
  const costs::Redistributor redistributor(problem.cluster, problem.mesh);
  const costs::Node& node = problem.graph.nodes[3];
  ASSERT_EQ(node.op, "aten.mm.default");
  const std::vector<Strategy> all =
      costs::combine(problem.graph, node, costs::find_rule(node.op)(problem.graph, node), problem.mesh);
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    const std::uint32_t spread = round % 2 == 0 ? 4 : 400;  // ties, or prices beside which moving is cheap
    std::vector<engine::Cost> prices;
    for (std::size_t i = 0; i < all.size(); ++i)
      prices.push_back(static_cast<engine::Cost>(random() % spread) * 1'000'000);
    std::vector<Strategy> kept = all;
    std::vector<engine::Cost> kept_prices = prices;
    NodeContext context;
    context.num_readers = {1};
    context.inputs_count = round % 5 == 1;
    context.outputs_count = round % 7 == 1;
    drop_dominated(problem.graph, node, redistributor, context, kept, kept_prices);
    const auto kept_stands_in = [&](std::size_t i, const Strategy& strategy, engine::Cost price) {
      return stands_in(problem.graph, node, redistributor, context, strategy, price, kept[i], kept_prices[i]);
    };
    std::size_t next = 0;  // the order stays
    for (std::size_t s = 0; s < all.size(); ++s) {
      const bool is_kept = next < kept.size() && kept[next].one_dim == all[s].one_dim;
      bool has_other = false;
      for (std::size_t i = 0; i < kept.size(); ++i) {
        has_other |= kept[i].one_dim != all[s].one_dim && kept_stands_in(i, all[s], prices[s]);
      }
      EXPECT_NE(is_kept, has_other);
      if (is_kept) ++next;
    }
    EXPECT_EQ(next, kept.size());
  }
}

}  // namespace
}  // namespace autopar::partition
