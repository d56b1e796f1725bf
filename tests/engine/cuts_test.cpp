#include "engine/cuts.h"

#include <gtest/gtest.h>

#include "engine/price_ascent.h"
#include "tests/engine/random_network.h"

namespace autopar::engine {
namespace {

using testing::exhaustive_optimum;
using testing::random_assignment;
using testing::random_network;
using testing::Shape;

std::vector<Cut> cuts_of(const CostNetwork& network, Cost& bound) {
  const Core core(network, all_values(network));
  Dual dual(core);
  PriceAscent ascent(dual, {});
  while (!ascent.is_done()) ascent.step(kForbidden);
  bound = ascent.bound();
  return choose_cuts(ascent.best());
}

/// `count` variables that either use 10 or cost 100, under a limit of 75: seven may use, the others pay.
CostNetwork knapsack(int count) {
  CostNetwork network;
  network.domains = {{{0, 100}, {{10, 0}}, {}}};
  network.variables.resize(static_cast<std::size_t>(count), {0, 0, {{0, 1}}});
  network.usage_limit = 75;
  return network;
}

TEST(CutsTest, values_chosen_whole_cost_what_fractions_do_not) {
  const CostNetwork network = knapsack(12);
  Cost bound = 0;
  const std::vector<Cut> cuts = cuts_of(network, bound);
  EXPECT_LE(bound, 450);
  ASSERT_FALSE(cuts.empty());
  Cost bound_with_cuts = 0;
  cuts_of(with_cuts(network, cuts), bound_with_cuts);
  EXPECT_GT(bound_with_cuts, 498);
  EXPECT_LE(bound_with_cuts, 500);
}

TEST(CutsTest, all_that_keeps_the_limit_keeps_the_cuts) {
  Shape shape;
  shape.num_times = 6;
  int num_cuts = 0;
  int num_allowed = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const CostNetwork network = random_network(seed, shape);
    Cost bound = 0;
    const Cost optimum = exhaustive_optimum(network);
    if (optimum >= kForbidden) continue;
    const std::vector<Cut> cuts = cuts_of(network, bound);
    num_cuts += static_cast<int>(cuts.size());
    const CostNetwork cut = with_cuts(network, cuts);
    std::mt19937 random(seed);
    for (int i = 0; i < 200; ++i) {
      const Assignment assignment = random_assignment(network, random);
      const Cost cost = evaluate(network, assignment);
      EXPECT_EQ(evaluate(cut, assignment), cost) << "seed " << seed;
      num_allowed += cost < kForbidden ? 1 : 0;
    }
    EXPECT_EQ(exhaustive_optimum(cut), optimum) << "seed " << seed;
  }
  EXPECT_GT(num_cuts, 100);
  EXPECT_GT(num_allowed, 1000);
}

TEST(CutsTest, without_priced_points_there_are_none) {
  CostNetwork network = knapsack(12);
  network.usage_limit = 1000;
  Cost bound = 0;
  EXPECT_TRUE(cuts_of(network, bound).empty());
}

}  // namespace
}  // namespace autopar::engine
