#include "engine/greedy.h"

#include <gtest/gtest.h>

#include "engine/index.h"
#include "tests/engine/random_network.h"

namespace autopar::engine {
namespace {

using testing::exhaustive_optimum;
using testing::random_network;
using testing::Shape;

TEST(GreedyTest, each_value_is_the_best_with_those_before_it) {
  Shape shape;
  shape.percent_forbidden = 0;
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    CostNetwork network = random_network(seed, shape);
    const Assignment greedy = greedy_assignment(network, false);
    EXPECT_LE(exhaustive_optimum(network), evaluate(network, greedy));
    // Without those behind it, no other value of the last variable is better.
    for (std::int32_t last = network.num_variables() - 1; last >= 0; --last) {
      Assignment other = greedy;
      other.resize(ix(last) + 1);
      network.variables.resize(other.size());
      std::erase_if(network.edges, [last](const Edge& edge) { return edge.u > last || edge.v > last; });
      const Cost cost = evaluate(network, other);
      for (std::int32_t& x = other.back() = 0; x < network.domain(last).size(); ++x) {
        EXPECT_LE(cost, evaluate(network, other));
      }
    }
  }
}

TEST(GreedyTest, by_usage_nothing_uses_less) {
  Shape shape;
  shape.percent_forbidden = 0;
  shape.num_times = 1;
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    CostNetwork network = random_network(seed, shape);
    const Assignment greedy = greedy_assignment(network, true);
    network.usage_limit = peak_usage(network, greedy);
    EXPECT_LT(evaluate(network, greedy), kForbidden);
    if (network.usage_limit-- > 0) {
      EXPECT_EQ(exhaustive_optimum(network), kForbidden);
    }
  }
}

}  // namespace
}  // namespace autopar::engine
