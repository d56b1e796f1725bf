#pragma once

#include <cstdint>
#include <vector>

#include "costs/graph.h"
#include "costs/redistribute.h"
#include "partition/simulate.h"
#include "partition/written_plan.h"

namespace autopar::launch {

/// What a plan moves with one kind of collective over one set of mesh dims in one phase, on one device.
struct CommunicationRow {
  std::uint32_t mesh_dims = 0;  ///< bit i: mesh dim i
  costs::RedistributeStep::Kind kind = costs::RedistributeStep::Kind::kAllGather;
  costs::Phase phase = costs::Phase::kForward;
  std::int64_t count = 0;
  std::int64_t bytes = 0;
  std::int64_t time_ps = 0;     ///< as the plan counts it
  std::int64_t exposed_ps = 0;  ///< on the simulated timeline, while nothing is computed
};

/// By mesh dims, then kind, then phase. All exposed times together are those in which the timeline does not compute.
std::vector<CommunicationRow> communication_rows(const partition::WrittenPlan& plan,
                                                 const partition::Simulation& simulation);

}  // namespace autopar::launch
