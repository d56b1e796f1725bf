#include "engine/dense_elimination.h"

#include <gtest/gtest.h>

#include <random>

namespace autopar::engine {
namespace {

using Costs = std::vector<std::vector<Cost>>;

struct Problem {
  std::vector<std::int32_t> sizes;
  std::vector<std::int32_t> current;
  std::vector<DenseElimination::Pair> pairs;
  Costs costs;

  Cost cost_of(const std::vector<std::int32_t>& values) const {
    Cost total = 0;
    for (std::size_t v = 0; v < sizes.size(); ++v) total = add(total, costs[v][static_cast<std::size_t>(values[v])]);
    for (const DenseElimination::Pair& pair : pairs) {
      const std::int32_t at = values[static_cast<std::size_t>(pair.u)] * sizes[static_cast<std::size_t>(pair.v)] +
                              values[static_cast<std::size_t>(pair.v)];
      total = add(total, pair.costs[static_cast<std::size_t>(at)]);
    }
    return total;
  }
};

Problem random_problem(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&](std::uint32_t count) { return static_cast<std::int32_t>(random() % count); };
  Problem problem;
  constexpr std::int32_t kNumVariables = 7;
  for (std::int32_t v = 0; v < kNumVariables; ++v) {
    problem.sizes.push_back(1 + draw(4));
    problem.current.push_back(draw(static_cast<std::uint32_t>(problem.sizes.back())));
    std::vector<Cost>& costs = problem.costs.emplace_back();
    for (std::int32_t x = 0; x < problem.sizes.back(); ++x) costs.push_back(draw(50));
    for (std::int32_t u = 0; u < v; ++u) {
      if (draw(2) == 0) continue;
      DenseElimination::Pair pair{draw(2) == 0 ? u : v, 0, {}};
      pair.v = pair.u == u ? v : u;
      const std::int32_t entries = problem.sizes[static_cast<std::size_t>(u)] * problem.sizes.back();
      for (std::int32_t i = 0; i < entries; ++i) pair.costs.push_back(draw(12) == 0 ? kForbidden : draw(50));
      problem.pairs.push_back(std::move(pair));
    }
  }
  return problem;
}

Cost least_by_trying_all(const Problem& problem) {
  std::vector<std::int32_t> values(problem.sizes.size(), 0);
  Cost least = kForbidden;
  while (true) {
    least = std::min(least, problem.cost_of(values));
    std::size_t v = 0;
    while (v < values.size() && ++values[v] == problem.sizes[v]) values[v++] = 0;
    if (v == values.size()) return least;
  }
}

TEST(DenseEliminationTest, finds_what_trying_all_finds_for_any_node_costs) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    Problem problem = random_problem(seed);
    DenseElimination elimination(problem.sizes, problem.current, problem.pairs, 1 << 20);
    EXPECT_EQ(elimination.num_kept(), 0U);
    for (int again = 0; again < 3; ++again) {
      ASSERT_EQ(problem.cost_of(elimination.solve(problem.costs)), least_by_trying_all(problem)) << "seed " << seed;
      for (std::vector<Cost>& costs : problem.costs) costs.front() += 10;
    }
  }
}

TEST(DenseEliminationTest, with_small_tables_it_is_never_worse_than_what_was_there) {
  std::size_t num_kept = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const Problem problem = random_problem(seed);
    DenseElimination elimination(problem.sizes, problem.current, problem.pairs, 16);
    ASSERT_LE(problem.cost_of(elimination.solve(problem.costs)), problem.cost_of(problem.current)) << "seed " << seed;
    num_kept += elimination.num_kept();
  }
  EXPECT_GT(num_kept, 300U);
}

}  // namespace
}  // namespace autopar::engine
