#include "io/plan_totals.h"

#include <map>
#include <utility>

namespace autopar::io {

std::vector<CommunicationTotal> communication_totals(const partition::Plan& plan) {
  using Kind = costs::RedistributeStep::Kind;
  std::map<std::pair<std::uint32_t, Kind>, CommunicationTotal> totals;
  for (const partition::Redistribution& redistribution : plan.redistributions) {
    for (const costs::RedistributeStep& step : redistribution.steps) {
      if (step.kind == Kind::kSlice || step.kind == Kind::kZero) continue;
      CommunicationTotal& total = totals[{step.mesh_dims, step.kind}];
      total.kind = step.kind;
      total.mesh_dims = step.mesh_dims;
      ++total.count;
      total.bytes += step.bytes;
      total.time_ps += step.time_ps;
    }
  }
  std::vector<CommunicationTotal> list;
  for (const auto& [key, total] : totals) list.push_back(total);
  return list;
}

std::vector<std::string> mesh_dim_names(std::uint32_t mesh_dims, const costs::Mesh& mesh) {
  std::vector<std::string> names;
  for (int i = 0; i < mesh.rank(); ++i) {
    if (((mesh_dims >> i) & 1U) != 0) names.push_back(mesh.dim_names[static_cast<std::size_t>(i)]);
  }
  return names;
}

}  // namespace autopar::io
