#pragma once

#include <functional>
#include <optional>

#include "costs/redistribute.h"
#include "engine/solve.h"
#include "partition/build_network.h"
#include "partition/plan.h"
#include "partition/problem.h"
#include "partition/shared_solver.h"
#include "partition/variant.h"

namespace autopar::partition {

/// A problem with what does not change while plans are searched for.
struct PlanSearchInput {
  const Problem& problem;
  const costs::Redistributor& redistributor;
  const ModelNetwork* first = nullptr;  ///< build_network(problem, redistributor); not needed if there are `points`
  /// If given, makes the network that is solved in place of the model's: same variables and edges, other costs.
  std::function<engine::CostNetwork(const engine::CostNetwork&)> reprice = {};
  PointIds points = {};    ///< where memory is looked at from the start
  int max_solves = 0;      ///< the search ends after so many networks; 0: none
  engine::Cost bound = 0;  ///< no plan costs less, as a search for plans among more has shown
};

struct PlanSearchResult {
  engine::Status status = engine::Status::kNoSolution;
  engine::Cost bound = 0;  ///< no plan within the memory limit costs less
  engine::Stats stats;     ///< sums over all networks that were solved; sizes are the largest
  std::optional<Plan> plan;
  Problem problem;                              ///< that `plan` is of: its graph has the nodes that run again
  std::vector<engine::ProgressPoint> progress;  ///< cost: of the best plan; the last is where it ended
  PointIds points;  ///< where memory was looked at; none if it was not the limit that decided
};

/// Searches for the plan of least cost within the memory limit, on all ranks; rank 0 calls this, with the options of
/// `solver` or others (but for the time limit).
///
/// Memory is looked at lazily (cutting planes): first no time point is, then, as long as the best plan exceeds the
/// limit somewhere, the network is built again with the highest peaks. Each network allows all plans that the problem
/// allows, so its bound holds, and a best plan that fits is optimal.
///
/// If the limit binds, nodes may run again (Pins::may_recompute): then one network with an offer to do so for every
/// node that can gives a bound and what to run again, and the best plan that does exactly this is searched for as
/// above. So it is where the user says what runs again (Pins::recompute).
PlanSearchResult search_plan(const PlanSearchInput& input, const engine::Options& options, SharedSolver& solver);

}  // namespace autopar::partition
