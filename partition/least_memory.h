#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "costs/redistribute.h"
#include "partition/plan.h"
#include "partition/problem.h"
#include "partition/shared_solver.h"
#include "partition/variant.h"

namespace autopar::partition {

/// How little memory plans can do with at one time point.
struct LeastUsage {
  std::int64_t bound_bytes = 0;  ///< every plan uses this much there
  std::vector<char> which;       ///< per node, whether it runs again where that is so; empty: not known
};

/// Minimises what is used at `point`, costs and the memory limit aside. Solves one network; rank 0 calls this, the
/// other ranks are in help_solve().
LeastUsage least_usage(const Problem& problem, const costs::Redistributor& redistributor, const PointId& point,
                       SharedSolver& solver);

/// How little memory plans can do with.
struct LeastMemory {
  std::int64_t bound_bytes = 0;  ///< no plan's peak is lower
  PointId point;                 ///< where that much is needed
  /// If one was found: a plan made to need little at `point`, whatever it needs elsewhere and however long it takes.
  std::optional<Plan> plan;
  Problem problem;        ///< that `plan` is of: its graph has the nodes that run again
  std::int32_t time = 0;  ///< of `point` in it
};

/// The largest of the least usages at `points` bounds every plan's peak. Solves one network per point, and one for
/// the plan.
LeastMemory least_memory(const Problem& problem, const costs::Redistributor& redistributor, const PointIds& points,
                         SharedSolver& solver);

}  // namespace autopar::partition
