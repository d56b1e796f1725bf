#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "io/write_plan.h"
#include "launch/checkpoint.h"
#include "launch/cli.h"
#include "launch/mesh_jobs.h"
#include "launch/task.h"
#include "partition/plan_search.h"

namespace autopar::launch {

/// What is known of plans on several meshes.
struct MeshSearch {
  /// The best plan, its status and bound being those of all meshes together. Without any plan: that there is none on
  /// the first mesh that was not left out.
  SearchedMesh best;
  std::vector<io::MeshOutcome> meshes;  ///< the best first; those that were left out last
};

/// Why no mesh could be searched.
struct MeshFailure {
  int exit_code = 0;
  std::string text;
};

/// The meshes to choose from for `arguments.devices` of the cluster that the files name, with names for their dims.
/// Throws io::InputError if there are none, or too many.
std::vector<costs::Mesh> meshes_to_choose_from(const Arguments& arguments, const TaskFiles& files);

/// Searches for the best plan on any of `meshes`; rank 0 calls this. Each search on a mesh is a task of one rank
/// (do_mesh_job()), in rounds that do not depend on the number of ranks:
///
/// 1. Each mesh gets a plan and a bound with little effort.
/// 2. The most promising, by their bounds, are searched for plans better than the best of any mesh so far,
/// 3. and then the others whose bounds are still below that.
///
/// A mesh on which the constraints cannot be met is left out, with the reason; if that is all of them, the first reason
/// is the result. Finished tasks are in `checkpoint`.
std::variant<MeshSearch, MeshFailure> search_meshes(const std::vector<costs::Mesh>& meshes, const Arguments& arguments,
                                                    const TaskFiles& files, partition::SharedSolver& solver,
                                                    Checkpoint& checkpoint,
                                                    const std::function<void(const engine::Progress&)>& progress);

/// The table of meshes, as a person reads it.
std::string mesh_table(const std::vector<io::MeshOutcome>& meshes);

}  // namespace autopar::launch
