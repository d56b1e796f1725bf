#include "io/plan_totals.h"

#include <map>
#include <utility>

namespace autopar::io {

std::vector<CommunicationTotal> communication_totals(const partition::Plan& plan) {
  using Kind = costs::RedistributeStep::Kind;
  std::map<std::pair<std::uint32_t, Kind>, CommunicationTotal> totals;
  const auto add = [&](std::uint32_t mesh_dims, Kind kind, std::int64_t bytes, std::int64_t time_ps) {
    CommunicationTotal& total = totals[{mesh_dims, kind}];
    total.kind = kind;
    total.mesh_dims = mesh_dims;
    ++total.count;
    total.bytes += bytes;
    total.time_ps += time_ps;
  };
  for (const partition::NodeChoice& node : plan.nodes) {
    for (const costs::ProgramAllReduce& one : node.all_reduces) {
      add(1U << one.mesh_dim, Kind::kAllReduce, one.bytes, one.time_ps);
    }
  }
  for (const partition::Redistribution& redistribution : plan.redistributions) {
    for (const costs::RedistributeStep& step : redistribution.steps) {
      if (costs::collective_of(step.kind)) add(step.mesh_dims, step.kind, step.bytes, step.time_ps);
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
