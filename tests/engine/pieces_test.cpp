#include "engine/pieces.h"

#include <gtest/gtest.h>

#include "engine/block_tasks.h"
#include "engine/bound.h"
#include "engine/comm.h"
#include "tests/engine/random_network.h"

namespace autopar::engine {
namespace {

using testing::exhaustive_optimum;
using testing::random_network;
using testing::Shape;

// A chain of copies of one random segment, each with its own boundary costs at the ends only.
CostNetwork repeated(std::uint32_t seed, const Shape& shape, int copies) {
  CostNetwork network = random_network(seed, shape);
  const auto count = network.num_variables();
  const std::vector<Edge> inside = network.edges;
  for (Variable& variable : network.variables) variable.segment = 0;
  const std::vector<Variable> variables = network.variables;
  for (int copy = 1; copy < copies; ++copy) {
    for (Variable variable : variables) {
      variable.segment = copy;
      network.variables.push_back(variable);
    }
    for (Edge edge : inside) {
      edge.u += copy * count;
      edge.v += copy * count;
      network.edges.push_back(edge);
    }
    // The last variable of a copy meets the first one of the next.
    const std::int32_t from = copy * count - 1;
    const std::int32_t to = copy * count;
    Table table{network.domain(from).size(), network.domain(to).size(), {}};
    for (std::int32_t i = 0; i < table.rows * table.cols; ++i) table.costs.push_back((i * 7) % 5);
    Projection rows;
    Projection cols;
    for (std::int32_t x = 0; x < table.rows; ++x) rows.push_back(x);
    for (std::int32_t x = 0; x < table.cols; ++x) cols.push_back(x);
    network.tables.push_back(table);
    network.projections.push_back(rows);
    network.projections.push_back(cols);
    network.edges.push_back({from, to, static_cast<std::int32_t>(network.tables.size()) - 1,
                             static_cast<std::int32_t>(network.projections.size()) - 2,
                             static_cast<std::int32_t>(network.projections.size()) - 1});
  }
  return network;
}

struct Outcome {
  Cost cost = kForbidden;
  std::size_t pieces = 0;
  std::size_t blocks = 0;
};

// Splits into pieces after `sweeps` sweeps, searches all blocks and merges: no presolve, no fixing.
Outcome solve_by_pieces(const CostNetwork& network, int sweeps, const Prices& prices, Cost target,
                        const BlockOptions& options) {
  LiveValues live = all_values(network);
  Outcome outcome;
  if (!propagate(network, live)) return outcome;
  const Core core(network, live);
  Dual dual(core);
  if (prices.size() == core.capacity().size()) dual.set_prices(prices);
  converge(dual, kForbidden, sweeps);
  EXPECT_LE(dual.bound(), target);
  const Pieces pieces(network, live, dual, target - dual.bound());
  outcome.pieces = pieces.num_pieces();
  outcome.blocks = pieces.blocks().size();
  Comm comm;
  std::vector<Pieces::Found> found;
  for (const BlockResult& result : search_on_all_ranks(pieces.blocks(), options, {}, comm, {})) {
    EXPECT_EQ(result.outcome, BlockResult::Outcome::kDone);
    found.push_back({target - dual.bound(), result.relation});
  }
  const Pieces::Merged merged = pieces.merge(found, target - dual.bound(), BlockOptions{}, {});
  EXPECT_EQ(merged.outcome, BlockResult::Outcome::kDone);
  if (!merged.found) return outcome;
  Assignment assignment;
  for (std::size_t v = 0; v < live.size(); ++v) {
    assignment.push_back(live[v][static_cast<std::size_t>(merged.values[v])]);
  }
  outcome.cost = evaluate(network, assignment);
  return outcome;
}

TEST(PiecesTest, merging_random_segments_gives_the_optimum) {
  Shape shape;
  shape.num_variables = 8;
  shape.max_domain = 3;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    const CostNetwork network = random_network(seed, shape);
    const Cost optimum = exhaustive_optimum(network);
    if (optimum >= kForbidden) continue;
    for (int sweeps : {0, 1, 5}) {
      ASSERT_EQ(solve_by_pieces(network, sweeps, {}, optimum + 5, {}).cost, optimum) << "seed " << seed;
      ASSERT_EQ(solve_by_pieces(network, sweeps, {}, optimum, {}).cost, optimum) << "seed " << seed;
    }
  }
}

TEST(PiecesTest, usage_over_time_is_respected_through_shared_and_merged_relations) {
  Shape shape;
  shape.num_variables = 8;
  shape.max_domain = 3;
  shape.num_times = 2;
  shape.percent_forbidden = 2;
  shape.percent_limit = 45;
  int compared = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const CostNetwork network = random_network(seed, shape);
    const Cost optimum = exhaustive_optimum(network);
    if (optimum >= kForbidden) continue;
    ++compared;
    const Prices prices(2, std::int64_t{1} << (kPriceShift - 2));
    for (const Prices& some : {Prices{}, prices}) {
      ASSERT_EQ(solve_by_pieces(network, 2, some, optimum + 3, {}).cost, optimum) << "seed " << seed;
    }
  }
  EXPECT_GT(compared, 50);
}

TEST(PiecesTest, branching_inside_blocks_changes_nothing) {
  Shape shape;
  shape.num_variables = 8;
  shape.max_domain = 4;
  shape.percent_edges = 70;
  BlockOptions small;
  small.max_rows = 9;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const CostNetwork network = random_network(seed, shape);
    const Cost optimum = exhaustive_optimum(network);
    if (optimum >= kForbidden) continue;
    ASSERT_EQ(solve_by_pieces(network, 1, {}, optimum + 2, small).cost, optimum) << "seed " << seed;
  }
}

TEST(PiecesTest, copies_of_a_segment_share_a_block_and_still_choose_freely) {
  Shape shape;
  shape.num_variables = 4;
  shape.max_domain = 3;
  shape.percent_edges = 80;
  shape.percent_forbidden = 0;
  std::size_t saved = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const CostNetwork network = repeated(seed, shape, 3);
    const Cost optimum = exhaustive_optimum(network);
    for (int sweeps : {0, 1, 4}) {
      const Outcome outcome = solve_by_pieces(network, sweeps, {}, optimum + 4, {});
      ASSERT_EQ(outcome.cost, optimum) << "seed " << seed;
      saved += outcome.pieces - outcome.blocks;
    }
  }
  EXPECT_GT(saved, 60U);
}

}  // namespace
}  // namespace autopar::engine
