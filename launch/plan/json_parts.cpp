#include "launch/plan/json_parts.h"

#include <string>

#include "costs/placement.h"
#include "engine/index.h"
#include "io/choices.h"
#include "io/plan_totals.h"

namespace autopar::launch {

using engine::ix;

Json head_json(const partition::WrittenPlan& plan) {
  const partition::PlanMemory& memory = plan.memory;
  Json parts = Json::object();
  for (std::size_t kind = 0; kind < partition::kNumMemoryKinds; ++kind) {
    parts[std::string(partition::memory_kind_name(static_cast<partition::MemoryKind>(kind)))] = memory.peak_parts[kind];
  }
  Json node = nullptr;
  if (memory.peak_node >= 0) node = plan.nodes[ix(memory.peak_node)].key;
  return {{"model", plan.model_name},
          {"mesh", {{"shape", plan.mesh.shape}, {"dim_names", plan.mesh.dim_names}}},
          {"cluster", plan.cluster_name},
          {"status", plan.status},
          {"cost_ps", plan.cost_ps},
          {"bound_ps", plan.bound_ps},
          {"compute_ps", plan.compute_ps},
          {"communication_ps", plan.communication_ps},
          {"exposed_ps", plan.cost_ps - plan.compute_ps},
          {"memory",
           {{"bytes", memory.peak_bytes}, {"limit_bytes", plan.memory_limit_bytes}, {"node", node}, {"parts", parts}}},
          {"recompute", plan.recomputed}};
}

Json communication_json(const partition::WrittenPlan& plan, const std::vector<CommunicationRow>& rows) {
  Json list = Json::array();
  for (const CommunicationRow& row : rows) {
    list.push_back({{"mesh_dims", io::mesh_dim_names(row.mesh_dims, plan.mesh)},
                    {"collective", costs::step_name(row.kind)},
                    {"phase", io::name_of(row.phase, io::kPhases)},
                    {"count", row.count},
                    {"bytes", row.bytes},
                    {"time_ps", row.time_ps},
                    {"exposed_ps", row.exposed_ps}});
  }
  return list;
}

Json placements_json(const costs::Mesh& mesh, const costs::Placements& placements) {
  Json json = Json::object();
  for (int dim = 0; dim < mesh.rank(); ++dim) json[mesh.dim_names[ix(dim)]] = costs::to_string(placements[dim]);
  return json;
}

}  // namespace autopar::launch
