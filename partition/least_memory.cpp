#include "partition/least_memory.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "partition/build_network.h"

namespace autopar::partition {
namespace {

using engine::Cost;

/// A minimum need not be exact to be a bound: networks that need much branching end early.
constexpr double kGap = 1e-3;
constexpr std::int64_t kMostBranchNodes = 0;

/// What `network`, which looks at one time point, uses there, as its cost; what is forbidden stays so.
engine::CostNetwork usage_as_cost(engine::CostNetwork network) {
  for (engine::Domain& domain : network.domains) {
    for (std::size_t value = 0; value < domain.costs.size(); ++value) {
      if (domain.costs[value] >= engine::kForbidden) continue;
      domain.costs[value] = 0;
      for (const auto& row : domain.usage) domain.costs[value] = engine::add(domain.costs[value], row[value]);
    }
    domain.usage.clear();
  }
  engine::Tables tables;
  for (std::size_t t = 0; t < network.tables.size(); ++t) {
    engine::Table table = network.tables[t];
    for (Cost& cost : table.costs) cost = cost >= engine::kForbidden ? engine::kForbidden : 0;
    tables.push_back(std::move(table));
  }
  network.tables = std::move(tables);
  for (engine::Variable& variable : network.variables) variable.spans.clear();
  network.usage_limit = -1;
  return network;
}

engine::Solution minimise_usage(const ModelNetwork& model, SharedSolver& solver) {
  engine::Options options = solver.options();
  options.gap = 0;  // the user's is of the time
  return solver.solve(usage_as_cost(model.network), with_effort(options, kGap, kMostBranchNodes));
}

}  // namespace

LeastUsage least_usage(const Problem& problem, const costs::Redistributor& redistributor, const PointId& point,
                       SharedSolver& solver) {
  if (!problem.pins.recompute.empty() || !problem.pins.may_recompute) {
    LeastUsage least{0, problem.pins.recompute};
    least.which.resize(problem.graph.nodes.size(), 0);
    const Variant variant(problem, least.which, true);
    const std::vector<std::int32_t> times = variant.times({point});
    if (times.empty()) return least;
    const ModelNetwork model = build_network(variant.repeated.problem, redistributor, {times, {}, {}});
    least.bound_bytes = minimise_usage(model, solver).bound;
    return least;
  }
  const Offers offers(problem);
  const ModelNetwork model = offers.network(redistributor, {point});
  const engine::Solution found = minimise_usage(model, solver);
  LeastUsage least{found.bound, {}};
  if (!found.assignment.empty()) least.which = offers.taken(model, found.assignment);
  return least;
}

LeastMemory least_memory(const Problem& problem, const costs::Redistributor& redistributor, const PointIds& points,
                         SharedSolver& solver) {
  LeastMemory least;
  std::vector<char> which;
  for (const PointId& point : points) {
    LeastUsage usage = least_usage(problem, redistributor, point, solver);
    if (usage.bound_bytes <= least.bound_bytes) continue;
    least.bound_bytes = usage.bound_bytes;
    least.point = point;
    which = std::move(usage.which);
  }
  if (which.empty()) return least;
  Variant variant(problem, which, true);
  least.problem = std::move(variant.repeated.problem);
  const std::vector<std::int32_t> times = variant.times({least.point});
  if (times.empty()) return least;
  least.time = times[0];
  ModelNetwork model = build_network(least.problem, redistributor, {times, {}, {}});
  model.network.usage_limit = -1;
  const engine::Solution found = minimise_usage(model, solver);
  if (!found.assignment.empty()) least.plan = make_plan(least.problem, redistributor, model, found.assignment);
  return least;
}

}  // namespace autopar::partition
