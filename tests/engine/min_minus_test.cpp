#include "engine/min_minus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/dual.h"
#include "engine/usage.h"
#include "tests/engine/random_network.h"

namespace autopar::engine {
namespace {

using testing::draw_between;

struct Drawn {
  Table table;
  std::vector<Cost> of_u;  // moved, by row
  std::vector<Cost> of_v;
};

/// Costs of up to 2^`bits`, some forbidden.
Drawn draw(std::mt19937& random, int bits) {
  const auto cost = [&] {
    const Cost drawn = draw_between(random, 0, (Cost{1} << 30) - 1);
    return bits < 30 ? drawn >> (30 - bits) : drawn << (bits - 30);
  };
  Drawn drawn;
  drawn.table.rows = static_cast<std::int32_t>(draw_between(random, 1, 90));
  drawn.table.cols = static_cast<std::int32_t>(draw_between(random, 1, 90));
  for (std::int32_t i = 0; i < drawn.table.rows * drawn.table.cols; ++i) {
    drawn.table.costs.push_back(draw_between(random, 0, 9) == 0 ? kForbidden : cost() + draw_between(random, 0, 999));
  }
  // What was moved may also be taken from elsewhere, up to all that a forbidden value costs.
  for (std::int32_t i = 0; i < drawn.table.rows; ++i) {
    drawn.of_u.push_back(draw_between(random, 0, 9) == 0 ? -kForbidden : cost() - cost());
  }
  for (std::int32_t i = 0; i < drawn.table.cols; ++i) drawn.of_v.push_back(cost() - cost());
  return drawn;
}

/// By the definition, with forbidden pairs left out: kForbidden where nothing is left.
std::vector<Cost> minima(const Drawn& drawn, bool of_v) {
  const Table& table = drawn.table;
  std::vector<Cost> least(static_cast<std::size_t>(of_v ? table.cols : table.rows), kForbidden);
  for (std::int32_t a = 0; a < table.rows; ++a) {
    for (std::int32_t b = 0; b < table.cols; ++b) {
      if (table.at(a, b) >= kForbidden) continue;
      Cost& here = least[static_cast<std::size_t>(of_v ? b : a)];
      here = std::min(here, table.at(a, b) - (of_v ? drawn.of_u[static_cast<std::size_t>(a)]
                                                   : drawn.of_v[static_cast<std::size_t>(b)]));
    }
  }
  return least;
}

TEST(CoarseTableTest, is_at_most_its_error_below_the_exact_minimum) {
  std::mt19937 random(1);
  CoarseTable::Scratch scratch;
  int num_close = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const Drawn drawn = draw(random, static_cast<int>(draw_between(random, 5, 45)));
    const CoarseTable coarse(drawn.table);
    for (const bool of_v : {false, true}) {
      const std::vector<Cost>& moved = of_v ? drawn.of_u : drawn.of_v;
      const std::vector<Cost> expected = minima(drawn, of_v);
      std::vector<Cost> exact(expected.size());
      min_minus(drawn.table, of_v, moved, exact);
      std::vector<Cost> out(expected.size());
      ASSERT_TRUE(coarse.min_minus(of_v, moved, out, scratch));
      for (std::size_t state = 0; state < out.size(); ++state) {
        EXPECT_LE(out[state], exact[state]);
        // Where only a forbidden pair or one of a value that is, is left, it is just some high cost.
        if (exact[state] > Cost{1} << 50) continue;
        EXPECT_EQ(exact[state], expected[state]);
        EXPECT_GT(out[state], exact[state] - coarse.error());
        ++num_close;
      }
    }
  }
  EXPECT_GT(num_close, 10'000);
}

TEST(CoarseTableTest, small_costs_are_exact) {
  const Table table{2, 2, {5, 9, 1'000'000, 7}};
  const CoarseTable coarse(table);
  CoarseTable::Scratch scratch;
  std::vector<Cost> out(2);
  ASSERT_TRUE(coarse.min_minus(true, std::vector<Cost>{3, -4}, out, scratch));
  EXPECT_EQ(out, (std::vector<Cost>{2, 6}));
}

TEST(CoarseTableTest, refuses_what_32_bits_do_not_hold) {
  const Table table{2, 2, {5, 9, 1, 7}};
  const CoarseTable coarse(table);
  CoarseTable::Scratch scratch;
  std::vector<Cost> out{-1, -1};
  EXPECT_FALSE(coarse.min_minus(true, std::vector<Cost>{Cost{1} << 31, 0}, out, scratch));
  EXPECT_EQ(out, (std::vector<Cost>{-1, -1}));
}

TEST(CoarseTableTest, coarse_sweeps_bound_from_below_and_exact_ones_get_the_rest) {
  std::mt19937 random(2);
  int num_coarse = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const Drawn drawn = draw(random, 40);
    // Two variables, whose optimum sweeps find.
    CostNetwork network;
    for (const std::int32_t count : {drawn.table.rows, drawn.table.cols}) {
      std::vector<Cost> costs;
      for (std::int32_t x = 0; x < count; ++x) costs.push_back(draw_between(random, 0, 1'000'000'000));
      network.domains.push_back({std::move(costs), {}, {}});
      network.variables.push_back({static_cast<std::int32_t>(network.variables.size())});
    }
    const LiveValues live = all_values(network);
    network.tables.push_back(drawn.table);
    network.projections = {live[0], live[1]};
    network.edges = {{0, 1, 0, 0, 1}};
    const Core core(network, live);
    if (!core.is_coarse()) continue;
    ++num_coarse;
    Cost optimum = kForbidden;
    for (const std::int32_t a : live[0]) {
      for (const std::int32_t b : live[1]) optimum = std::min(optimum, evaluate(network, {a, b}));
    }
    Dual dual(core);
    for (int sweep = 0; sweep < 5; ++sweep) dual.sweep(Precision::kCoarse);
    EXPECT_LE(dual.bound(), optimum);
    EXPECT_GT(dual.bound(), optimum - 4 * CoarseTable(drawn.table).error());
    for (int sweep = 0; sweep < 5; ++sweep) dual.sweep(Precision::kExact);
    EXPECT_EQ(dual.bound(), optimum);
  }
  EXPECT_GT(num_coarse, 5);
}

}  // namespace
}  // namespace autopar::engine
