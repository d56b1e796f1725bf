#include "partition/least_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/comm.h"
#include "partition/held_memory.h"
#include "partition/plan_search.h"
#include "toy.h"

namespace autopar::partition {
namespace {

using testing::linear_step;
using testing::residual_layers;
using testing::toy_problem;

/// The least peak over the time points of a network, by trying all assignments but those that use too much already.
class Exhaustive {
 public:
  explicit Exhaustive(const engine::CostNetwork& network, std::int32_t num_points)
      : network_(network), now_(static_cast<std::size_t>(num_points), 0), assignment_(network.variables.size(), -1) {
    edges_of_.resize(network.variables.size());
    for (std::size_t e = 0; e < network.edges.size(); ++e) {
      edges_of_[static_cast<std::size_t>(network.edges[e].u)].push_back(e);
      edges_of_[static_cast<std::size_t>(network.edges[e].v)].push_back(e);
    }
    order_variables();
    later_.assign(order_.size() + 1, std::vector<std::int64_t>(now_.size(), 0));
    for (std::size_t depth = order_.size(); depth-- > 0;) {
      later_[depth] = later_[depth + 1];
      const engine::Variable& own = variable(order_[depth]);
      for (std::size_t s = 0; s < own.spans.size(); ++s) {
        const std::vector<std::int64_t>& row = network.domain(order_[depth]).usage[s];
        for (std::int32_t t = own.spans[s].start; t < own.spans[s].end; ++t) {
          later_[depth][static_cast<std::size_t>(t)] += *std::min_element(row.begin(), row.end());
        }
      }
    }
  }

  std::int64_t least() {
    choose(0);
    return best_;
  }

 private:
  const engine::Variable& variable(std::int32_t v) const { return network_.variables[static_cast<std::size_t>(v)]; }

  /// Those that use something come first: with them given, any way to assign the others will do. Next is who has most
  /// neighbours before it, so that what cannot be is seen soon.
  void order_variables() {
    std::vector<std::int32_t> num_before(network_.variables.size(), 0);
    while (order_.size() < network_.variables.size()) {
      std::int32_t next = -1;
      const auto key = [&](std::int32_t v) { return std::pair(uses_any(v), num_before[static_cast<std::size_t>(v)]); };
      for (std::int32_t v = 0; v < network_.num_variables(); ++v) {
        const bool is_there = std::find(order_.begin(), order_.end(), v) != order_.end();
        if (!is_there && (next < 0 || key(v) > key(next))) next = v;
      }
      order_.push_back(next);
      for (const std::size_t e : edges_of_[static_cast<std::size_t>(next)]) {
        ++num_before[static_cast<std::size_t>(network_.edges[e].u)];
        ++num_before[static_cast<std::size_t>(network_.edges[e].v)];
      }
    }
  }

  bool uses_any(std::int32_t v) const { return !variable(v).spans.empty(); }

  /// At least this much, whatever those behind `depth` do.
  std::int64_t peak(std::size_t depth) const {
    std::int64_t highest = 0;
    for (std::size_t t = 0; t < now_.size(); ++t) highest = std::max(highest, now_[t] + later_[depth][t]);
    return highest;
  }

  /// Those that use little first.
  std::vector<std::int32_t> values(std::int32_t v) const {
    const engine::Domain& domain = network_.domain(v);
    std::vector<std::int32_t> sorted(domain.costs.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    const auto total = [&](std::int32_t value) {
      std::int64_t sum = 0;
      for (const auto& row : domain.usage) sum += row[static_cast<std::size_t>(value)];
      return sum;
    };
    std::stable_sort(sorted.begin(), sorted.end(), [&](std::int32_t a, std::int32_t b) { return total(a) < total(b); });
    return sorted;
  }

  /// Returns whether the rest could be assigned.
  bool choose(std::size_t depth) {
    if (peak(depth) >= best_) return false;
    if (depth == order_.size()) {
      best_ = peak(depth);
      return true;
    }
    const std::int32_t v = order_[depth];
    bool done = false;
    for (const std::int32_t value : values(v)) {
      assignment_[static_cast<std::size_t>(v)] = value;
      if (is_forbidden(v)) continue;
      add(v, value, 1);
      done |= choose(depth + 1);
      add(v, value, -1);
      if (done && !uses_any(v)) break;
    }
    assignment_[static_cast<std::size_t>(v)] = -1;
    return done;
  }

  bool is_forbidden(std::int32_t v) const {
    const auto value_of = [&](std::int32_t other) { return assignment_[static_cast<std::size_t>(other)]; };
    if (network_.domain(v).costs[static_cast<std::size_t>(value_of(v))] >= engine::kForbidden) return true;
    return std::any_of(
        edges_of_[static_cast<std::size_t>(v)].begin(), edges_of_[static_cast<std::size_t>(v)].end(),
        [&](std::size_t e) {
          const engine::Edge& edge = network_.edges[e];
          if (value_of(edge.u) < 0 || value_of(edge.v) < 0) return false;
          const auto state = [&](std::int32_t projection, std::int32_t end) {
            return network_.projections[static_cast<std::size_t>(projection)][static_cast<std::size_t>(value_of(end))];
          };
          return network_.tables[static_cast<std::size_t>(edge.table)].at(
                     state(edge.project_u, edge.u), state(edge.project_v, edge.v)) >= engine::kForbidden;
        });
  }

  void add(std::int32_t v, std::int32_t value, std::int64_t sign) {
    for (std::size_t s = 0; s < variable(v).spans.size(); ++s) {
      const engine::Span& span = variable(v).spans[s];
      for (std::int32_t t = span.start; t < span.end; ++t) {
        now_[static_cast<std::size_t>(t)] += sign * network_.domain(v).usage[s][static_cast<std::size_t>(value)];
      }
    }
  }

  const engine::CostNetwork& network_;
  std::vector<std::int64_t> now_;
  engine::Assignment assignment_;
  std::vector<std::int32_t> order_;
  std::vector<std::vector<std::size_t>> edges_of_;
  std::vector<std::vector<std::int64_t>> later_;  // per depth and point: least use of those from there on
  std::int64_t best_ = std::numeric_limits<std::int64_t>::max();
};

struct Tiny {
  Tiny(costs::Graph graph, std::vector<std::int64_t> mesh, bool may_recompute)
      : problem(toy_problem(std::move(graph), std::move(mesh))), redistributor(problem.cluster, problem.mesh) {
    problem.pins.may_recompute = may_recompute;
  }

  Variant variant(const std::vector<char>& which) const { return {problem, which, true}; }
  std::vector<char> nothing() const { return std::vector<char>(problem.graph.nodes.size(), 0); }
  std::int32_t num_times() const { return Timeline::of(problem.graph).num_times(); }
  PointIds all_points() const {
    PointIds points;
    for (std::int32_t time = 0; time < num_times(); ++time) points.insert(variant(nothing()).id(time));
    return points;
  }

  /// Of one variant, with every strategy; nothing if it does not have the points.
  std::optional<std::int64_t> least_peak(const Variant& of, const PointIds& points) const {
    Problem all = of.repeated.problem;
    all.keep_dominated = true;
    const std::vector<std::int32_t> times = of.times(points);
    if (times.empty()) return std::nullopt;
    const ModelNetwork model = build_network(all, redistributor, {times, {}, {}});
    return Exhaustive(model.network, static_cast<std::int32_t>(times.size())).least();
  }

  LeastUsage usage(const PointId& point) {
    SharedSolver solver({}, comm);
    return least_usage(problem, redistributor, point, solver);
  }

  Problem problem;
  costs::Redistributor redistributor;
  engine::Comm comm;
};

TEST(LeastMemoryTest, every_points_minimum_is_that_of_all_assignments) {
  for (const bool is_residual : {false, true}) {
    Tiny tiny(is_residual ? residual_layers(1) : linear_step(64, 16), {2}, false);
    for (const PointId& point : tiny.all_points()) {
      SCOPED_TRACE(std::to_string(is_residual) + " node " + std::to_string(point.node) + " place " +
                   std::to_string(point.place));
      EXPECT_EQ(tiny.usage(point).bound_bytes, tiny.least_peak(tiny.variant(tiny.nothing()), {point}));
    }
  }
}

/// Over all choices of nodes to run again that have the point.
std::int64_t least_of_variants(const Tiny& tiny, const PointId& point) {
  std::vector<std::size_t> repeatable;
  const std::vector<char> may = repeatable_nodes(tiny.problem.graph);
  for (std::size_t i = 0; i < may.size(); ++i) {
    if (may[i] != 0) repeatable.push_back(i);
  }
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t set = 0; set < std::size_t{1} << repeatable.size(); ++set) {
    std::vector<char> which = tiny.nothing();
    for (std::size_t i = 0; i < repeatable.size(); ++i) which[repeatable[i]] = (set >> i & 1U) != 0 ? 1 : 0;
    least = std::min(least, tiny.least_peak(tiny.variant(which), {point}).value());
  }
  return least;
}

// Of what is optional the network leaves out what redistributions take, so some minima are too low.
TEST(LeastMemoryTest, what_may_run_again_is_taken_into_account) {
  for (const int num_layers : {1, 2}) {
    Tiny tiny(residual_layers(num_layers), {2}, true);
    int num_points = 0;
    int num_exact = 0;
    int num_saving = 0;
    for (const PointId& point : tiny.all_points()) {
      SCOPED_TRACE("node " + std::to_string(point.node) + " place " + std::to_string(point.place));
      const std::int64_t least = least_of_variants(tiny, point);
      const std::int64_t bound = tiny.usage(point).bound_bytes;
      EXPECT_LE(bound, least);
      ++num_points;
      num_exact += bound == least ? 1 : 0;
      num_saving += least < tiny.least_peak(tiny.variant(tiny.nothing()), {point}) ? 1 : 0;
    }
    EXPECT_GT(num_exact, num_points * 9 / 10);
    EXPECT_GT(num_saving, 0);
  }
}

TEST(LeastMemoryTest, no_plan_is_below_the_bound_and_its_plan_shows_what_is_held) {
  Tiny tiny(linear_step(64, 16), {2}, false);
  SharedSolver solver({}, tiny.comm);
  const PointIds points = tiny.all_points();
  const LeastMemory least = least_memory(tiny.problem, tiny.redistributor, points, solver);
  ASSERT_TRUE(least.plan);
  const HeldMemory memory = held_memory(least.problem, *least.plan);
  EXPECT_EQ(memory.bytes[static_cast<std::size_t>(least.time)], least.bound_bytes);

  const std::int64_t least_peak = tiny.least_peak(tiny.variant(tiny.nothing()), points).value();
  EXPECT_LE(least.bound_bytes, least_peak);
  const auto status = [&](std::int64_t limit) {
    Problem limited = tiny.problem;
    limited.pins.memory_limit_bytes = limit;
    const ModelNetwork first = build_network(limited, tiny.redistributor);
    const PlanSearchResult found = search_plan({limited, tiny.redistributor, &first}, {}, solver);
    EXPECT_EQ(found.plan.has_value(), found.status == engine::Status::kOptimal);
    return found.status;
  };
  EXPECT_EQ(status(least.bound_bytes - 1), engine::Status::kInfeasible);
  EXPECT_EQ(status(least_peak), engine::Status::kOptimal);
  EXPECT_EQ(status(least_peak - 1), engine::Status::kInfeasible);
}

}  // namespace
}  // namespace autopar::partition
