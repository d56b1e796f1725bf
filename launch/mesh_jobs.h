#pragma once

#include <optional>
#include <string>

#include "costs/mesh.h"
#include "engine/solve.h"
#include "engine/solve_record.h"
#include "engine/timing.h"
#include "launch/cli.h"
#include "launch/task.h"
#include "partition/plan_search.h"

/// Searches on one of several meshes, as tasks that ranks share (engine/pool.h). What travels are cereal's bytes.
namespace autopar::launch {

/// A search for plans that cost less than `cutoff`.
struct MeshJob {
  costs::Mesh mesh;
  engine::Cost cutoff = engine::kForbidden;
  double gap = 0;           ///< at which it may end
  double seconds_left = 0;  ///< 0: no limit
};

struct MeshJobResult {
  /// Why the mesh cannot be searched, as an exit code and a text; 0: it was.
  int failure = 0;
  std::string failure_text;
  engine::Solution outcome;    ///< without an assignment: `cost` is that of the best plan found, `bound` that of all
  engine::SolveRecord record;  ///< gives the plan again (searched_mesh)
};

/// `timing`: of the rank that does it.
MeshJobResult do_mesh_job(const MeshJob& job, const Arguments& arguments, const TaskFiles& files,
                          engine::Timing& timing);

/// What a job found, and the task that it is of. Nothing is searched again.
struct SearchedMesh {
  Task task;
  partition::PlanSearchResult found;
};
SearchedMesh searched_mesh(const MeshJob& job, engine::SolveRecord record, const Arguments& arguments,
                           const TaskFiles& files);

std::string pack(const MeshJob& job);
std::string pack(const MeshJobResult& result);
std::string pack(const TaskFiles& files);
MeshJob unpack_mesh_job(const std::string& bytes);
MeshJobResult unpack_mesh_job_result(const std::string& bytes);
TaskFiles unpack_task_files(const std::string& bytes);

}  // namespace autopar::launch
