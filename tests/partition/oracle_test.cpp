#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "costs/compute.h"
#include "costs/fusion.h"
#include "costs/rules/rule.h"
#include "engine/comm.h"
#include "engine/solve.h"
#include "partition/build_network.h"
#include "partition/uses.h"
#include "toy.h"

namespace autopar::partition {
namespace {

using costs::Placements;
using costs::RedistributeTable;
using costs::Strategy;
using testing::linear_step;
using testing::OutputRole;
using testing::Phase;
using testing::Role;
using testing::toy_problem;
using testing::ToyGraph;
using testing::ValueRef;

/// The cheapest plan of a graph by trying all combinations of all strategies, where the readers of a value in a phase
/// may share any placement at all, and both phases one of a value that is there from the start. It knows nothing of the
/// network's copies, projections and dropped strategies.
class Oracle {
 public:
  Oracle(const Problem& problem, const costs::Redistributor& redistributor)
      : problem_(problem), graph_(problem.graph), redistributor_(redistributor), is_given_(given_nodes(graph_)) {
    for (const costs::Node& node : graph_.nodes) {
      std::vector<costs::OneDimStrategy> one_dim = {costs::replicated(node)};
      if (node.role != Role::kNone) {
        for (std::int64_t dim = 0; dim < node.outputs[0]->rank(); ++dim) {
          one_dim.push_back({{}, {costs::Split::shard(dim)}});
        }
      } else if (!node.strategies.empty()) {
        one_dim = listed(node);
      } else if (const costs::Rule rule = costs::find_rule(node.op)) {
        one_dim = rule(graph_, node);
      }
      strategies_.push_back(costs::combine(graph_, node, one_dim, problem.mesh));
    }
    chosen_.resize(graph_.nodes.size());
  }

  std::int64_t best_ps() {
    choose(0, 0);
    return best_;
  }

 private:
  static std::vector<costs::OneDimStrategy> listed(const costs::Node& node) {
    std::vector<costs::OneDimStrategy> list;
    for (const costs::DeclaredStrategy& declared : node.strategies) {
      costs::OneDimStrategy& strategy = list.emplace_back();
      for (const costs::Placement placement : declared.inputs) strategy.inputs.push_back({placement});
      for (const costs::Placement placement : declared.outputs) strategy.outputs.push_back({placement});
    }
    return list;
  }

  void choose(std::size_t node, std::int64_t compute_ps) {
    if (compute_ps >= best_) return;
    if (node == graph_.nodes.size()) {
      best_ = std::min(best_, compute_ps + communication_ps());
      return;
    }
    const std::int32_t tied_to = graph_.nodes[node].same_strategy_as;
    for (const Strategy& strategy : strategies_[node]) {
      if (tied_to >= 0 && chosen_[static_cast<std::size_t>(tied_to)]->one_dim != strategy.one_dim) continue;
      chosen_[node] = &strategy;
      choose(node + 1, compute_ps + price_ps(node, strategy));
    }
  }

  std::int64_t price_ps(std::size_t node, const Strategy& strategy) const {
    if (graph_.nodes[node].role == Role::kNone) {
      return costs::compute_ps(graph_, graph_.nodes[node], strategy, problem_.mesh, problem_.cluster);
    }
    const bool is_trained =
        graph_.nodes[node].role == Role::kParameter &&
        std::any_of(graph_.outputs.begin(), graph_.outputs.end(), [&](const costs::GraphOutput& output) {
          return output.role == OutputRole::kGradient && output.of == static_cast<std::int32_t>(node);
        });
    if (!is_trained) return 0;
    return costs::optimizer_ps(*graph_.nodes[node].outputs[0], strategy.outputs[0], problem_.mesh,
                               problem_.pins.optimizer, problem_.cluster.device);
  }

  std::int64_t communication_ps() const {
    std::map<std::pair<ValueRef, Phase>, std::vector<Placements>> wanted;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const costs::Node& node = graph_.nodes[i];
      for (std::size_t input = 0; input < node.inputs.size(); ++input) {
        wanted[{node.inputs[input], node.phase}].push_back(chosen_[i]->inputs[input]);
      }
    }
    for (const costs::GraphOutput& output : graph_.outputs) {
      const Phase phase = output.role == OutputRole::kGradient ? Phase::kBackward : Phase::kForward;
      // The toys' only other output is a scalar loss.
      wanted[{output.value, phase}].push_back(output.of < 0 ? Placements{} : given({output.of, 0}));
    }
    std::int64_t sum = 0;
    for (const auto& [reading, placements] : wanted) {
      const auto& [value, phase] = reading;
      const auto later = wanted.find({value, Phase::kBackward});
      const bool is_in_both = later != wanted.end() && wanted.contains({value, Phase::kForward});
      if (is_in_both && is_given_[static_cast<std::size_t>(value.node)] != 0) {
        if (phase == Phase::kForward) sum += delivery_ps(value, placements, later->second);
      } else {
        sum += delivery_ps(value, given(value), placements);
      }
    }
    return sum;
  }

  /// To the forward and the backward: of one tensor that both start from, or each by itself.
  std::int64_t delivery_ps(ValueRef value, const std::vector<Placements>& forward,
                           const std::vector<Placements>& backward) const {
    const RedistributeTable& table = redistributor_.table(graph_.meta(value));
    std::int64_t best = delivery_ps(value, given(value), forward) + delivery_ps(value, given(value), backward);
    for (const Placements& kept : table.states()) {
      const std::int64_t made_ps = table.time_ps(table.index_of(given(value)), table.index_of(kept));
      if (made_ps >= best) continue;
      best = std::min(best, made_ps + delivery_ps(value, kept, forward) + delivery_ps(value, kept, backward));
    }
    return best;
  }

  const Placements& given(ValueRef value) const {
    return chosen_[static_cast<std::size_t>(value.node)]->outputs[static_cast<std::size_t>(value.output)];
  }

  std::int64_t delivery_ps(ValueRef value, const Placements& start, const std::vector<Placements>& wanted) const {
    const RedistributeTable& table = redistributor_.table(graph_.meta(value));
    const int from = table.index_of(start);
    std::int64_t best = RedistributeTable::kUnreachable;
    for (int shared = 0; shared < static_cast<int>(table.states().size()); ++shared) {
      if (wanted.size() == 1 && table.states()[static_cast<std::size_t>(shared)] != wanted[0]) continue;
      std::int64_t sum = table.time_ps(from, shared);
      for (const Placements& to : wanted) {
        if (sum < best) sum += table.time_ps(shared, table.index_of(to));
      }
      best = std::min(best, sum);
    }
    return best;
  }

  const Problem& problem_;
  const costs::Graph& graph_;
  const costs::Redistributor& redistributor_;
  const std::vector<char> is_given_;
  std::vector<std::vector<Strategy>> strategies_;
  std::vector<const Strategy*> chosen_;
  std::int64_t best_ = RedistributeTable::kUnreachable;
};

/// Returns the optimum.
engine::Cost expect_optimum(const Problem& problem) {
  const costs::Redistributor redistributor(problem.cluster, problem.mesh);
  engine::Comm comm;
  const ModelNetwork model = build_network(problem, redistributor);
  const engine::Solution solution = engine::solve(model.network, {}, comm);
  EXPECT_EQ(solution.status, engine::Status::kOptimal);
  EXPECT_EQ(solution.cost, Oracle(problem, redistributor).best_ps());
  return solution.cost;
}

TEST(OracleTest, optimum_of_a_linear_step) {
  for (const std::int64_t rows : {64, 2048, 65536}) {
    for (const std::int64_t width : {64, 1024, 8192}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
      expect_optimum(toy_problem(linear_step(rows, width), {8}));
      expect_optimum(toy_problem(linear_step(rows, width), {64}));
    }
  }
}

/// a = x w read three times: twice by one product, and by a sum.
costs::Graph shared_reads(std::int64_t rows, std::int64_t width) {
  ToyGraph toy;
  const ValueRef w = toy.input(Role::kParameter, "w", {width, width});
  const ValueRef x = toy.input(Role::kInput, "x", {rows, width});
  const ValueRef a = toy.op("mm.default", {ToyGraph::ref(x), ToyGraph::ref(w)}, {rows, width});
  const ValueRef square = toy.op("mul.Tensor", {ToyGraph::ref(a), ToyGraph::ref(a)}, {rows, width});
  const ValueRef product = toy.op("mm.default", {ToyGraph::ref(square), ToyGraph::ref(w)}, {rows, width});
  const ValueRef b = toy.op("add.Tensor", {ToyGraph::ref(a), ToyGraph::ref(product)}, {rows, width});
  toy.output(toy.op("sum.default", {ToyGraph::ref(b)}, {}), OutputRole::kLoss);
  return std::move(toy.graph);
}

TEST(OracleTest, optimum_of_shared_reads) {
  for (const std::int64_t rows : {64, 65536}) {
    for (const std::int64_t width : {64, 4096}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
      expect_optimum(toy_problem(shared_reads(rows, width), {4}));
    }
  }
}

/// A weight that the loss and its own gradient read whole, in pieces of `rows` rows of an input.
costs::Graph weight_in_both_phases(std::int64_t rows, std::int64_t width, bool is_read_twice) {
  ToyGraph toy;
  const ValueRef w = toy.input(Role::kParameter, "w", {width, width});
  const ValueRef x = toy.input(Role::kInput, "x", {rows, width});
  const ValueRef y = toy.op("mm.default", {ToyGraph::ref(x), ToyGraph::ref(w)}, {rows, width});
  toy.output(toy.op("sum.default", {ToyGraph::ref(y)}, {}), OutputRole::kLoss);
  toy.phase = Phase::kBackward;
  const ValueRef z = toy.op("mm.default", {ToyGraph::ref(y), ToyGraph::ref(w)}, {rows, width});
  const ValueRef zt = toy.op("t.default", {ToyGraph::ref(z)}, {width, rows});
  ValueRef gradient = toy.op("mm.default", {ToyGraph::ref(zt), ToyGraph::ref(y)}, {width, width});
  if (is_read_twice) gradient = toy.op("add.Tensor", {ToyGraph::ref(gradient), ToyGraph::ref(w)}, {width, width});
  toy.output(gradient, OutputRole::kGradient, w);
  return std::move(toy.graph);
}

TEST(OracleTest, optimum_of_a_weight_that_both_phases_read) {
  for (const bool is_read_twice : {false, true}) {
    for (const std::int64_t rows : {64, 65536}) {
      for (const std::int64_t width : {64, 4096}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
        expect_optimum(toy_problem(weight_in_both_phases(rows, width, is_read_twice), {4}));
      }
    }
  }
}

TEST(OracleTest, optimum_on_two_mesh_dims) {
  ToyGraph toy;
  const ValueRef w = toy.input(Role::kParameter, "w", {4096, 4096});
  const ValueRef x = toy.input(Role::kInput, "x", {8192, 4096});
  const ValueRef y = toy.op("mm.default", {ToyGraph::ref(x), ToyGraph::ref(w)}, {8192, 4096});
  toy.output(toy.op("sum.default", {ToyGraph::ref(y)}, {}), OutputRole::kLoss);
  expect_optimum(toy_problem(std::move(toy.graph), {2, 8}));
}

// The same graphs as kernels: what a kernel keeps to itself is not priced, unless a pending sum stands between.
TEST(OracleTest, optimum_of_fused_ops) {
  for (const std::int64_t width : {64, 1024}) {
    ToyGraph toy;
    const ValueRef w = toy.input(Role::kParameter, "w", {width, width});
    const ValueRef x = toy.input(Role::kInput, "x", {8192, width});
    const ValueRef y = toy.op("mm.default", {ToyGraph::ref(x), ToyGraph::ref(w)}, {8192, width});
    const ValueRef z = toy.op("add.Tensor", {ToyGraph::ref(y), ToyGraph::ref(y)}, {8192, width});
    const ValueRef relu = toy.op("relu.default", {ToyGraph::ref(z)}, {8192, width});
    toy.output(toy.op("sum.default", {ToyGraph::ref(relu)}, {}), OutputRole::kLoss);
    costs::Graph fused = toy.graph;
    costs::fuse(fused);
    const engine::Cost alone = expect_optimum(toy_problem(std::move(toy.graph), {4}));
    EXPECT_LT(expect_optimum(toy_problem(std::move(fused), {4})), alone);
  }
}

/// One entry of a list: the placement of all inputs and outputs of a node.
costs::DeclaredStrategy all_in(const costs::Node& node, const char* placement) {
  const costs::Placement each = *costs::parse_placement(placement);
  return {std::vector(node.inputs.size(), each), std::vector(node.outputs.size(), each)};
}

/// y = f(w) and its gradient, two ops of an author's own that choose from `forward` and `backward`.
costs::Graph region(const std::vector<const char*>& forward, const std::vector<const char*>& backward, bool is_tied) {
  constexpr std::int64_t kSize = 2048;
  ToyGraph toy;
  const ValueRef w = toy.input(Role::kParameter, "w", {kSize, kSize});
  const ValueRef tangent = toy.input(Role::kTangent, "loss", {});
  const ValueRef y = toy.op("own.region", {ToyGraph::ref(w)}, {kSize, kSize});
  toy.output(toy.op("sum.default", {ToyGraph::ref(y)}, {}), OutputRole::kLoss);
  toy.phase = Phase::kBackward;
  const ValueRef dy =
      toy.op("expand.default", {ToyGraph::ref(tangent), {testing::Arg::List{{kSize}, {kSize}}}}, {kSize, kSize});
  const ValueRef dw = toy.op("own.region_backward", {ToyGraph::ref(dy), ToyGraph::ref(w)}, {kSize, kSize});
  toy.output(dw, OutputRole::kGradient, w);
  for (const auto& [value, placements] : {std::pair{y, forward}, std::pair{dw, backward}}) {
    costs::Node& node = toy.graph.nodes[static_cast<std::size_t>(value.node)];
    node.flops = 1'000'000'000'000;
    for (const char* placement : placements) node.strategies.push_back(all_in(node, placement));
  }
  if (is_tied) toy.graph.nodes[static_cast<std::size_t>(dw.node)].same_strategy_as = y.node;
  return std::move(toy.graph);
}

/// The optima with and without the tie.
std::pair<engine::Cost, engine::Cost> optima(const std::vector<const char*>& forward,
                                             const std::vector<const char*>& backward,
                                             const std::vector<std::int64_t>& mesh) {
  return {expect_optimum(toy_problem(region(forward, backward, true), mesh)),
          expect_optimum(toy_problem(region(forward, backward, false), mesh))};
}

// In entry 0 only the forward is cut, in entry 1 only the backward; each alone takes the one that cuts it.
TEST(OracleTest, a_tie_costs_what_its_worse_half_does) {
  for (const std::vector<std::int64_t>& mesh : {std::vector<std::int64_t>{4}, {2, 2}}) {
    const auto [tied, untied] = optima({"S(0)", "R"}, {"R", "S(0)"}, mesh);
    EXPECT_GT(tied, untied);
  }
}

// The forward's entries are alike, so that each could stand in for the other, but only entry 1 cuts the backward.
TEST(OracleTest, entries_that_look_alike_are_not_the_same_to_a_tie) {
  for (const auto& backward : {std::vector<const char*>{"R", "S(0)"}, {"S(0)", "R"}}) {
    const auto [tied, untied] = optima({"S(0)", "S(0)"}, backward, {4});
    EXPECT_EQ(tied, untied);
  }
}

TEST(OracleTest, ties_between_several_ways_to_cut) {
  const auto [tied, untied] = optima({"R", "S(0)", "S(1)"}, {"R", "S(1)", "S(0)"}, {4});
  EXPECT_GT(tied, untied);
  const auto [same, free] = optima({"R", "S(0)", "S(1)"}, {"R", "S(0)", "S(1)"}, {2, 2});
  EXPECT_EQ(same, free);
}

// What is not listed cannot be chosen, though it would be free.
TEST(OracleTest, only_what_is_listed_is_chosen) {
  const engine::Cost whole = expect_optimum(toy_problem(region({"R"}, {"R"}, false), {4}));
  const engine::Cost cut = expect_optimum(toy_problem(region({"R", "S(0)"}, {"R", "S(0)"}, false), {4}));
  const engine::Cost must_cut = expect_optimum(toy_problem(region({"S(1)"}, {"S(1)"}, false), {4}));
  EXPECT_GT(whole, cut);
  EXPECT_GE(must_cut, cut);
}

}  // namespace
}  // namespace autopar::partition
