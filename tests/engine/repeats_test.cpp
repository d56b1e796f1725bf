#include "engine/repeats.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/comm.h"
#include "engine/part.h"
#include "engine/solve.h"
#include "engine/usage.h"

namespace autopar::engine {
namespace {

/// `layers` equal layers of three variables between a head and a tail, and one variable that every layer reads.
CostNetwork stack(int layers, unsigned seed) {
  std::mt19937 random(seed);
  const auto number = [&](int most) { return static_cast<Cost>(random() % static_cast<unsigned>(most)); };
  CostNetwork net;
  net.projections = {{0, 1, 2}};
  for (int d = 0; d < 4; ++d) net.domains.push_back({{number(50), number(50), number(50)}, {}, {}});
  for (int t = 0; t < 6; ++t) {
    Table table{3, 3, {}};
    for (int i = 0; i < 9; ++i) table.costs.push_back(number(100));
    net.tables.push_back(std::move(table));
  }
  net.variables.push_back({3, 0, {}});  // head, which every layer reads
  std::int32_t before = 0;
  for (int layer = 0; layer < layers; ++layer) {
    const auto first = static_cast<std::int32_t>(net.variables.size());
    for (int k = 0; k < 3; ++k) net.variables.push_back({k, layer + 1, {}});
    net.edges.push_back({before, first, layer == 0 ? 5 : 0, 0, 0});
    net.edges.push_back({first, first + 1, 1, 0, 0});
    net.edges.push_back({first + 1, first + 2, 2, 0, 0});
    net.edges.push_back({first, first + 2, 3, 0, 0});
    if (layer > 0) net.edges.push_back({0, first + 1, 4, 0, 0});
    before = first + 2;
  }
  net.variables.push_back({3, layers + 1, {}});
  net.edges.push_back({before, static_cast<std::int32_t>(net.variables.size()) - 1, 5, 0, 0});
  return net;
}

TEST(Repeats, of_a_stack_the_ends_are_left) {
  const CostNetwork net = stack(20, 1);
  const auto shortened = shorten(net);
  ASSERT_TRUE(shortened);
  std::size_t left = 0;
  for (std::int32_t v = 0; v < net.num_variables(); ++v)
    left += shortened->variable_of[static_cast<std::size_t>(v)] == v;
  EXPECT_LE(left, 2U + 3U * 8U);
  EXPECT_GE(left, 2U + 3U * 4U);
  for (std::size_t e = 0; e < net.edges.size(); ++e) {
    const Edge& edge = net.edges[e];
    const Edge& stand_in = shortened->edges[static_cast<std::size_t>(shortened->edge_of[e])];
    EXPECT_EQ(stand_in.table, edge.table);
    EXPECT_EQ(shortened->variable_of[static_cast<std::size_t>(stand_in.u)], stand_in.u);
    EXPECT_EQ(shortened->variable_of[static_cast<std::size_t>(stand_in.v)], stand_in.v);
    EXPECT_EQ(net.variables[static_cast<std::size_t>(stand_in.u)].domain,
              net.variables[static_cast<std::size_t>(edge.u)].domain);
  }
}

TEST(Repeats, groups_of_layers_repeat_too) {
  CostNetwork net = stack(24, 2);
  for (std::size_t layer = 0; layer < 24; layer += 3) net.variables[2 + 3 * layer].domain = 3;
  const auto shortened = shorten(net);
  ASSERT_TRUE(shortened);
  std::size_t gone = 0;
  for (std::int32_t v = 0; v < net.num_variables(); ++v)
    gone += shortened->variable_of[static_cast<std::size_t>(v)] != v;
  EXPECT_EQ(gone % 9, 0U);
  EXPECT_GE(gone, 2U * 9U);
}

TEST(Repeats, a_short_stack_stays) { EXPECT_FALSE(shorten(stack(4, 3))); }

TEST(Repeats, layers_that_differ_stay) {
  CostNetwork net = stack(20, 4);
  for (std::size_t v = 1; v < net.variables.size(); v += 3) {
    net.variables[v].domain = static_cast<std::int32_t>(net.domains.size());
    net.domains.push_back({{static_cast<Cost>(v), 1, 2}, {}, {}});
  }
  EXPECT_FALSE(shorten(net));
}

/// What messages of the short network say of the whole: never more than the optimum, and mostly near to it.
TEST(Repeats, bound_of_the_short_network_is_one_of_the_whole) {
  double share = 0;
  constexpr unsigned kNetworks = 50;
  for (unsigned seed = 0; seed < kNetworks; ++seed) {
    const CostNetwork net = stack(12, seed);
    Comm alone;
    const Solution best = solve(net, {}, alone);
    ASSERT_EQ(best.status, Status::kOptimal);
    EXPECT_EQ(evaluate(net, best.assignment), best.cost);
    const auto shortened = shorten(net);
    ASSERT_TRUE(shortened);
    const Part small = make_short_part(net, all_values(net), *shortened);
    for (int i = 0; i < 8; ++i) small.dual->sweep(Precision::kExact);
    const auto whole = make_part(net, all_values(net), small, *shortened);
    ASSERT_TRUE(whole);
    EXPECT_LE(whole->dual->bound(), best.cost) << seed;
    share += static_cast<double>(whole->dual->bound()) / static_cast<double>(best.cost);
    const LiveValues left = fixed(*whole->dual, whole->live, best.cost);
    for (std::size_t v = 0; v < left.size(); ++v) {
      EXPECT_TRUE(std::ranges::find(left[v], best.assignment[v]) != left[v].end()) << seed;
    }
  }
  EXPECT_GT(share / kNetworks, 0.9);
}

}  // namespace
}  // namespace autopar::engine
