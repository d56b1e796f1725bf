#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "launch/plan/communication.h"
#include "partition/written_plan.h"

/// What several commands print as JSON, each part alike everywhere (docs/plan-tools.md).
namespace autopar::launch {

using Json = nlohmann::ordered_json;

/// Model, mesh, cluster, times and memory.
Json head_json(const partition::WrittenPlan& plan);
Json communication_json(const partition::WrittenPlan& plan, const std::vector<CommunicationRow>& rows);
Json placements_json(const costs::Mesh& mesh, const costs::Placements& placements);

}  // namespace autopar::launch
