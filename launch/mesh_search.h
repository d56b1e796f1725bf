#pragma once

#include <string>
#include <vector>

#include "io/write_plan.h"
#include "launch/cli.h"
#include "launch/task.h"
#include "partition/plan_search.h"

namespace autopar::launch {

/// A mesh with the best plan that was found on it, and what is known of the others.
struct MeshSearch {
  Task task;
  partition::PlanSearchResult found;    ///< status and bound are those of all meshes together
  std::vector<io::MeshOutcome> meshes;  ///< the best first; those that were left out last
};

/// The meshes to choose from for `arguments.devices` of the cluster that the files name, with names for their dims.
/// `text`: that of the model file. Throws io::InputError if there are none, or too many.
std::vector<costs::Mesh> meshes_to_choose_from(const Arguments& arguments, const std::string& text);

/// Searches for the best plan on any of `meshes`, on all ranks; rank 0 calls this. Without any plan the result is that
/// of the first mesh that was not left out.
///
/// First each mesh gets a plan and a bound with little effort. Then they are searched in the order of their bounds,
/// each for plans that are better than the best of any mesh so far, which most bounds exceed from the start. A mesh on
/// which the constraints cannot be met is left out, with the reason; if that is all of them, the first reason is thrown
/// (io::InputError, partition::PinError).
MeshSearch search_meshes(const std::vector<costs::Mesh>& meshes, const Arguments& arguments, const std::string& text,
                         partition::SharedSolver& solver);

/// The table of meshes, as a person reads it.
std::string mesh_table(const std::vector<io::MeshOutcome>& meshes);

}  // namespace autopar::launch
