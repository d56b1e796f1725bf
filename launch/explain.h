#pragma once

#include <string>
#include <vector>

#include "partition/plan.h"
#include "partition/problem.h"

namespace autopar::launch {

/// What mesh dim `mesh_dim` does in `plan`, in the field's words, each derived from the plan: how the matmuls of
/// weights are cut (column-, row-, batch-parallel), attention, norms, inputs, parameters at rest and gradients.
std::vector<std::string> explain_mesh_dim(const partition::Problem& problem, const partition::Plan& plan, int mesh_dim);

}  // namespace autopar::launch
