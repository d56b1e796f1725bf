#include "partition/plan_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "engine/comm.h"
#include "plan_checker.h"
#include "toy.h"

namespace autopar::partition {
namespace {

using engine::Assignment;
using engine::Cost;
using testing::OutputRole;
using testing::Phase;
using testing::PlanChecker;
using testing::Role;
using testing::toy_problem;
using testing::ToyGraph;
using testing::ValueRef;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// Visits assignments of a network by depth-first search, value by value. It turns back where what is chosen, with the
/// least that each of the other variables costs and uses, is too much.
class Enumeration {
 public:
  explicit Enumeration(const engine::CostNetwork& network) : network_(network) {
    edges_.resize(network.variables.size());
    for (const engine::Edge& edge : network.edges) {
      edges_[static_cast<std::size_t>(std::max(edge.u, edge.v))].push_back(&edge);
    }
    for (const engine::Variable& variable : network.variables) {
      for (const engine::Span& span : variable.spans) num_times_ = std::max(num_times_, span.end);
    }
    assignment_.resize(network.variables.size());
    usage_.resize(static_cast<std::size_t>(num_times_));
    add_least();
  }

  /// Calls `visit` with each allowed assignment of at most `limit` usage that costs less than `most`, which `visit` may
  /// lower.
  void run(std::int64_t limit, Cost& most, const std::function<void(const Assignment&, Cost)>& visit) {
    limit_ = limit;
    most_ = &most;
    visit_ = &visit;
    choose(0, 0);
  }

 private:
  std::int32_t value(std::int32_t variable) const { return assignment_[static_cast<std::size_t>(variable)]; }

  /// All variables start at their least.
  void add_least() {
    for (std::int32_t v = 0; v < network_.num_variables(); ++v) {
      const engine::Domain& domain = network_.domain(v);
      least_costs_.push_back(*std::min_element(domain.costs.begin(), domain.costs.end()));
      rest_ += least_costs_.back();
      std::vector<std::int64_t>& least = least_usage_.emplace_back(usage_.size(), kNoLimit);
      for (std::int32_t x = 0; x < domain.size(); ++x) {
        const std::vector<std::int64_t> used = used_by(static_cast<std::size_t>(v), x);
        for (std::size_t t = 0; t < used.size(); ++t) least[t] = std::min(least[t], used[t]);
      }
      for (std::size_t t = 0; t < least.size(); ++t) usage_[t] += least[t];
    }
  }

  std::vector<std::int64_t> used_by(std::size_t v, std::int32_t x) const {
    std::vector<std::int64_t> used(usage_.size(), 0);
    const engine::Domain& domain = network_.domain(static_cast<std::int32_t>(v));
    for (std::size_t s = 0; s < domain.usage.size(); ++s) {
      const engine::Span& span = network_.variables[v].spans[s];
      for (std::int32_t t = span.start; t < span.end; ++t) {
        used[static_cast<std::size_t>(t)] += domain.usage[s][static_cast<std::size_t>(x)];
      }
    }
    return used;
  }

  Cost part(std::size_t v) const {
    Cost sum = network_.domain(static_cast<std::int32_t>(v)).costs[static_cast<std::size_t>(assignment_[v])];
    for (const engine::Edge* edge : edges_[v]) {
      const auto state = [&](std::int32_t projection, std::int32_t variable) {
        return network_.projections[static_cast<std::size_t>(projection)][static_cast<std::size_t>(value(variable))];
      };
      sum = engine::add(sum, network_.tables[static_cast<std::size_t>(edge->table)].at(
                                 state(edge->project_u, edge->u), state(edge->project_v, edge->v)));
    }
    return sum;
  }

  /// Adds (or takes off) what a variable uses above its least; false if that is too much.
  bool use(std::size_t v, std::int32_t x, std::int64_t sign) {
    bool fits = true;
    const std::vector<std::int64_t> used = used_by(v, x);
    for (std::size_t t = 0; t < used.size(); ++t) {
      usage_[t] += sign * (used[t] - least_usage_[v][t]);
      fits &= usage_[t] <= limit_;
    }
    return fits;
  }

  void choose(std::size_t v, Cost cost) {
    if (v == assignment_.size()) {
      (*visit_)(assignment_, cost);
      return;
    }
    rest_ -= least_costs_[v];
    for (std::int32_t x = 0; x < network_.domain(static_cast<std::int32_t>(v)).size(); ++x) {
      assignment_[v] = x;
      const Cost sum = engine::add(cost, part(v));
      if (sum >= engine::kForbidden || sum + rest_ >= *most_) continue;
      if (use(v, x, 1)) choose(v + 1, sum);
      use(v, x, -1);
    }
    rest_ += least_costs_[v];
  }

  const engine::CostNetwork& network_;
  std::vector<std::vector<const engine::Edge*>> edges_;  // by their later end
  std::int32_t num_times_ = 0;
  std::vector<Cost> least_costs_;
  std::vector<std::vector<std::int64_t>> least_usage_;  // per variable and time point
  Cost rest_ = 0;                                       // the least that the variables not yet chosen cost
  std::vector<std::int64_t> usage_;
  Assignment assignment_;
  std::int64_t limit_ = 0;
  Cost* most_ = nullptr;
  const std::function<void(const Assignment&, Cost)>* visit_ = nullptr;
};

std::vector<std::int32_t> all_times(const Problem& problem) {
  std::vector<std::int32_t> times(static_cast<std::size_t>(Timeline::of(problem.graph).num_times()));
  std::iota(times.begin(), times.end(), 0);
  return times;
}

/// The search on one problem under many limits, compared with exhaustive search.
class LimitCheck {
 public:
  LimitCheck(costs::Graph graph, std::vector<std::int64_t> mesh)
      : problem_(toy_problem(std::move(graph), std::move(mesh))), redistributor_(problem_.cluster, problem_.mesh) {
    problem_.pins.may_recompute = false;
  }

  /// Has node 0, a parameter, cut along its first dim.
  void cut_first() {
    problem_.pins.nodes.resize(problem_.graph.nodes.size());
    problem_.pins.nodes[0].at[0] = costs::Placement::shard(0);
    problem_.pins.nodes[0].source = "test";
  }

  /// All plans of the network that looks at no time point, by their memory: the search finds one at least as good.
  void list_plans() {
    const ModelNetwork base = build_network(problem_, redistributor_);
    Cost most = engine::kForbidden;
    Enumeration(base.network).run(kNoLimit, most, [&](const Assignment& assignment, Cost cost) {
      const Plan plan = make_plan(problem_, redistributor_, base, assignment);
      EXPECT_EQ(plan.cost_ps, cost);
      const auto [known, is_new] = listed_.try_emplace(held_memory(problem_, plan).peak_bytes(), cost);
      known->second = std::min(known->second, cost);
    });
  }

  /// The least peak of listed plans, in which what is saved of a value is what is given.
  std::int64_t least_listed_peak() const { return listed_.begin()->first; }

  /// The least limit that some plan keeps.
  std::int64_t least_limit() {
    std::int64_t low = 0;
    std::int64_t high = 2 * search(std::int64_t{1} << 50).plan->memory.peak_bytes;
    while (low + 1 < high) {
      const std::int64_t middle = low + (high - low) / 2;
      (full_optimum(middle, true) < engine::kForbidden ? high : low) = middle;
    }
    return high;
  }

  PlanSearchResult search(std::int64_t limit) {
    problem_.pins.memory_limit_bytes = limit;
    engine::Comm comm;
    const ModelNetwork first = build_network(problem_, redistributor_);
    SharedSolver solver({}, comm);
    PlanSearchResult found = search_plan({problem_, redistributor_, &first}, {}, solver);
    if (found.plan) check_progress(found);
    return found;
  }

  /// It gets better all the time, knows no plan that is better than the one that is found, and ends with that.
  static void check_progress(const PlanSearchResult& found) {
    ASSERT_FALSE(found.progress.empty());
    engine::ProgressPoint before;
    for (const engine::ProgressPoint& point : found.progress) {
      EXPECT_GE(point.seconds, before.seconds);
      EXPECT_LE(point.cost, before.cost);
      EXPECT_GE(point.bound, before.bound);
      EXPECT_GE(point.cost, found.plan->cost_ps);
      EXPECT_LE(point.bound, found.bound);
      before = point;
    }
    EXPECT_EQ(before.cost, found.plan->cost_ps);
    EXPECT_EQ(before.bound, found.bound);
  }

  /// Searches and compares.
  PlanSearchResult check(std::int64_t limit) {
    SCOPED_TRACE("limit " + std::to_string(limit));
    PlanSearchResult found = search(limit);
    const Cost optimum = full_optimum(limit, false);
    for (const auto& [peak, cost] : listed_) EXPECT_TRUE(peak > limit || optimum <= cost);
    if (found.status == engine::Status::kInfeasible) {
      EXPECT_FALSE(found.plan.has_value());
      EXPECT_EQ(optimum, engine::kForbidden) << "a plan fits";
      return found;
    }
    EXPECT_EQ(found.status, engine::Status::kOptimal);
    EXPECT_LE(found.bound, optimum);
    EXPECT_TRUE(found.plan.has_value());
    if (!found.plan) return found;
    check_plan(found, limit);
    EXPECT_EQ(found.plan->cost_ps, optimum);
    return found;
  }

  /// At limits from where nothing fits to where everything does.
  void check_all() {
    const std::int64_t least = least_limit();
    const std::int64_t most = check(std::int64_t{1} << 50).plan->memory.peak_bytes;
    EXPECT_EQ(check(least / 2).status, engine::Status::kInfeasible);
    EXPECT_EQ(check(least - 1).status, engine::Status::kInfeasible);
    for (std::int64_t i = 0; i < 4; ++i) check(least + i * (most - least) / 4);
    check(most - 1);
  }

 private:
  /// Of all plans, in which all is a choice: no strategy is left out, and whatever can be saved in pieces is. With
  /// `any`, the cost of the first that is found.
  Cost full_optimum(std::int64_t limit, bool any) {
    Problem problem = problem_;
    problem.keep_dominated = true;
    problem.pins.memory_limit_bytes = limit;
    const ModelNetwork full = build_network(problem, redistributor_, {all_times(problem)});
    Cost most = engine::kForbidden;
    Cost best = engine::kForbidden;
    Enumeration(full.network).run(limit, most, [&](const Assignment& assignment, Cost cost) {
      EXPECT_EQ(engine::evaluate(full.network, assignment), cost);
      EXPECT_LE(make_plan(problem, redistributor_, full, assignment).memory.peak_bytes, limit);
      best = cost;
      most = any ? 0 : cost;
    });
    return best;
  }

  void check_plan(const PlanSearchResult& found, std::int64_t limit) {
    const Plan& plan = *found.plan;
    PlanChecker(problem_, redistributor_, plan).check();
    EXPECT_LE(plan.memory.peak_bytes, limit);
    EXPECT_EQ(plan.cost_ps, found.bound);
  }

  Problem problem_;
  costs::Redistributor redistributor_;
  std::map<std::int64_t, Cost> listed_;  // the least cost by peak
};

TEST(PlanSearchTest, equals_exhaustive_search_of_a_linear_step) {
  for (const std::int64_t rows : {64, 8192}) {
    for (const std::int64_t width : {64, 1024}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
      LimitCheck limits(testing::linear_step(rows, width), {2});
      limits.list_plans();
      limits.check_all();
    }
  }
}

/// The forward makes `a`, then something large, then the loss; the backward reads `a` twice. All but the sums is by ops
/// without a rule, whose tensors are whole, so that only what is saved of `a` can be cut.
costs::Graph saved_across_a_peak() {
  ToyGraph toy;
  const ValueRef w = toy.input(Role::kParameter, "w", {32, 32});
  const ValueRef x = toy.input(Role::kInput, "x", {16, 32});
  const ValueRef a = toy.op("unknown.first", {ToyGraph::ref(x), ToyGraph::ref(w)}, {256, 32});
  const ValueRef b = toy.op("unknown.second", {ToyGraph::ref(a)}, {16, 32});
  const ValueRef c = toy.op("unknown.third", {ToyGraph::ref(b)}, {512, 32});
  toy.output(toy.op("sum.default", {ToyGraph::ref(c)}, {}), OutputRole::kLoss);
  toy.phase = Phase::kBackward;
  const ValueRef narrow = toy.op("unknown.fourth", {ToyGraph::ref(b)}, {32, 32});
  const ValueRef one = toy.op("unknown.fifth", {ToyGraph::ref(a), ToyGraph::ref(narrow)}, {32, 32});
  const ValueRef two = toy.op("unknown.sixth", {ToyGraph::ref(a)}, {32, 32});
  toy.output(toy.op("add.Tensor", {ToyGraph::ref(one), ToyGraph::ref(two)}, {32, 32}), OutputRole::kGradient, w);
  return std::move(toy.graph);
}

TEST(PlanSearchTest, what_is_saved_is_cut_where_nothing_else_fits) {
  for (const std::vector<std::int64_t>& mesh : {std::vector<std::int64_t>{2}, {2, 2}}) {
    SCOPED_TRACE(::testing::PrintToString(mesh));
    LimitCheck limits(saved_across_a_peak(), mesh);
    limits.list_plans();
    limits.check_all();
    EXPECT_LT(limits.least_limit(), limits.least_listed_peak());
    const PlanSearchResult found = limits.check(limits.least_listed_peak() - 1);
    ASSERT_TRUE(found.plan.has_value());
    const auto is_saved = [](const Redistribution& move) { return move.is_saved; };
    const auto saved = std::find_if(found.plan->redistributions.begin(), found.plan->redistributions.end(), is_saved);
    ASSERT_NE(saved, found.plan->redistributions.end());
    EXPECT_EQ(saved->value, (ValueRef{2, 0}));
  }
}

/// Both phases read all of `w`; between, the forward makes something large. By ops without a rule, whose tensors are
/// whole.
costs::Graph weight_around_a_peak() {
  ToyGraph toy;
  const ValueRef w = toy.input(Role::kParameter, "w", {64, 32});
  const ValueRef x = toy.input(Role::kInput, "x", {16, 32});
  const ValueRef a = toy.op("unknown.first", {ToyGraph::ref(x), ToyGraph::ref(w)}, {16, 32});
  const ValueRef b = toy.op("unknown.second", {ToyGraph::ref(a)}, {512, 32});
  const ValueRef c = toy.op("unknown.third", {ToyGraph::ref(b)}, {16, 32});
  toy.output(toy.op("sum.default", {ToyGraph::ref(c)}, {}), OutputRole::kLoss);
  toy.phase = Phase::kBackward;
  toy.output(toy.op("unknown.fourth", {ToyGraph::ref(c), ToyGraph::ref(w)}, {64, 32}), OutputRole::kGradient, w);
  return std::move(toy.graph);
}

TEST(PlanSearchTest, a_gathered_weight_is_kept_where_memory_allows_it) {
  for (const std::vector<std::int64_t>& mesh : {std::vector<std::int64_t>{2}, {2, 2}}) {
    SCOPED_TRACE(::testing::PrintToString(mesh));
    LimitCheck limits(weight_around_a_peak(), mesh);
    limits.cut_first();
    limits.list_plans();
    limits.check_all();
    const auto gathers = [&](std::int64_t limit) {
      std::vector<bool> are_kept;
      const PlanSearchResult found = limits.check(limit);
      for (const Redistribution& move : found.plan->redistributions) {
        if (move.value == ValueRef{0, 0}) are_kept.push_back(move.is_saved);
      }
      return are_kept;
    };
    EXPECT_EQ(gathers(std::int64_t{1} << 50), std::vector<bool>{true});
    EXPECT_EQ(gathers(limits.least_limit()), (std::vector<bool>{false, false}));
  }
}

/// Some ops on what there is, forward and backward, by seed. Sizes that two and three divide or not.
costs::Graph random_graph(std::uint32_t seed) {
  std::mt19937 random(seed);
  ToyGraph toy;
  const ValueRef w = toy.input(Role::kParameter, "w", {8, 12});
  std::vector<ValueRef> values = {toy.input(Role::kInput, "x", {8, 12}), w};
  const auto any = [&] { return values[random() % values.size()]; };
  const auto add_op = [&] {
    const ValueRef value = any();
    const std::vector<std::int64_t> shape = toy.graph.meta(value).shape;
    switch (random() % 6) {
      case 0:
        return toy.op("relu.default", {ToyGraph::ref(value)}, shape);
      case 1:
        return toy.op("t.default", {ToyGraph::ref(value)}, {shape[1], shape[0]});
      case 2:
        return toy.op(
            "mm.default",
            {ToyGraph::ref(value), ToyGraph::ref(toy.op("t.default", {ToyGraph::ref(value)}, {shape[1], shape[0]}))},
            {shape[0], shape[0]});
      case 3:
        return toy.op("mul.Tensor", {ToyGraph::ref(value), ToyGraph::ref(value)}, shape);
      case 4:
        return toy.op("unknown.op", {ToyGraph::ref(value)}, shape);
      default:
        return toy.op("unknown.large", {ToyGraph::ref(value)}, {2 * shape[0], shape[1]});
    }
  };
  for (int i = 0; i < 3; ++i) values.push_back(add_op());
  toy.output(toy.op("sum.default", {ToyGraph::ref(values.back())}, {}), OutputRole::kLoss);
  toy.phase = Phase::kBackward;
  for (int i = 0; i < 2; ++i) values.push_back(add_op());
  toy.output(toy.op("unknown.gradient", {ToyGraph::ref(any()), ToyGraph::ref(values.back())}, {8, 12}),
             OutputRole::kGradient, w);
  return std::move(toy.graph);
}

TEST(PlanSearchTest, equals_exhaustive_search_on_random_graphs) {
  const std::vector<std::vector<std::int64_t>> meshes = {{2}, {2}, {3}};
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LimitCheck(random_graph(seed), meshes[seed % meshes.size()]).check_all();
  }
}

}  // namespace
}  // namespace autopar::partition
