#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costs/mesh.h"
#include "costs/redistribute.h"
#include "partition/plan.h"

namespace autopar::io {

/// What a plan moves with one kind of collective over one set of mesh dims, on one device.
struct CommunicationTotal {
  costs::RedistributeStep::Kind kind = costs::RedistributeStep::Kind::kAllGather;
  std::uint32_t mesh_dims = 0;  ///< bit i: mesh dim i
  std::int64_t count = 0;
  std::int64_t bytes = 0;  ///< as costs::CollectiveModel::time_ps counts them
  std::int64_t time_ps = 0;
};

/// Totals of all collectives of `plan`, by mesh dims, then kind. Local steps (slice, zero) are not communication.
std::vector<CommunicationTotal> communication_totals(const partition::Plan& plan);

/// Names of the mesh dims in `mesh_dims`, mesh dim 0 first.
std::vector<std::string> mesh_dim_names(std::uint32_t mesh_dims, const costs::Mesh& mesh);

}  // namespace autopar::io
