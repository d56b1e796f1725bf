#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costs/mesh.h"
#include "engine/solve.h"
#include "partition/plan.h"
#include "partition/problem.h"

namespace autopar::io {

/// Where a plan comes from.
struct PlanSource {
  std::string producer;                           ///< "autopar-search 0.1.0"
  std::string model_hash;                         ///< content_hash of the model file
  std::string cluster_hash;                       ///< of the cluster file or inline description
  std::string constraints_hash;                   ///< of the constraints file; empty: there was none
  std::vector<std::vector<std::string>> aliases;  ///< per node: further names of a tied parameter
  bool is_random = false;                         ///< not the best plan but any: nothing is proven
};

/// How a plan was found: what differs from run to run.
struct RunInfo {
  int ranks = 1;
  int threads = 0;
  double read_s = 0;
  double build_s = 0;
  double solve_s = 0;
  std::vector<engine::ProgressPoint> progress = {};  ///< empty: not known
};

/// "optimal", "limit_reached", "infeasible", "no_solution", "not_proven".
std::string_view status_name(engine::Status status);

/// What is known of the plans on one of several meshes that were searched together.
struct MeshOutcome {
  costs::Mesh mesh;
  std::optional<engine::Cost> cost;  ///< of the best plan found on it; where its bound decides, not the best there is
  engine::Cost bound = 0;            ///< no plan on it costs less; kForbidden: there is none
  std::string left_out = {};         ///< why it cannot be searched; empty: it can
  bool is_searched = false;          ///< else the time was over before, or it is left out
};

/// What is known of a plan's place among all.
struct PlanResult {
  engine::Status status = engine::Status::kOptimal;
  engine::Cost bound = 0;  ///< no plan costs less
  engine::Stats stats;
  std::vector<MeshOutcome> meshes = {};  ///< if the mesh was chosen: all that were looked at, the best first
};

/// (cost - bound) / cost, 0 if both are equal.
double relative_gap(engine::Cost cost, engine::Cost bound);

/// The text of plan.json (docs/plan-json.md): one line per node and redistribution, in the graph's order, so that plans
/// can be compared line by line. Without `run` it is byte-identical for equal input, however the plan was found.
std::string format_plan(const partition::Problem& problem, const partition::Plan& plan, const PlanResult& result,
                        const PlanSource& source, const std::optional<RunInfo>& run);

}  // namespace autopar::io
