#include "partition/declared.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "costs/mesh.h"
#include "partition/edge_tables.h"

namespace autopar::partition {
namespace {

using costs::Node;
using costs::OneDimStrategy;
using costs::Split;
using costs::Strategy;

/// "dp", "ep": the mesh dims that any strategy of `node` is for.
std::string listed_mesh_dims(const Node& node) {
  std::set<std::string> names;
  for (const costs::DeclaredStrategy& strategy : node.strategies) {
    names.insert(strategy.mesh_dims.begin(), strategy.mesh_dims.end());
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

constexpr const char* kTorn = "pieces would be empty, or uneven where they must be even";

/// Why no listed strategy can be chosen along mesh dim `dim`; empty: one can.
std::string fault_along(const Problem& problem, const Node& node, std::size_t dim) {
  const std::string& name = problem.mesh.dim_names[dim];
  if (std::none_of(node.strategies.begin(), node.strategies.end(),
                   [&](const auto& strategy) { return costs::is_for(strategy.mesh_dims, name); })) {
    return "none is for mesh dim \"" + name + "\"; they are for " + listed_mesh_dims(node);
  }
  costs::Mesh alone = problem.mesh;
  std::fill(alone.shape.begin(), alone.shape.end(), 1);
  alone.shape[dim] = problem.mesh.shape[dim];
  if (!costs::combine(problem.graph, node, declared_strategies(node), alone).empty()) return {};
  return "along mesh dim \"" + name + "\" (" + std::to_string(alone.shape[dim]) + " devices) " + kTorn;
}

}  // namespace

std::vector<OneDimStrategy> declared_strategies(const Node& node) {
  std::vector<OneDimStrategy> list;
  for (const costs::DeclaredStrategy& declared : node.strategies) {
    const auto split = [&](costs::Placement placement) { return Split{placement, 0, declared.even}; };
    OneDimStrategy& strategy = list.emplace_back();
    for (const costs::Placement placement : declared.inputs) strategy.inputs.push_back(split(placement));
    for (const costs::Placement placement : declared.outputs) strategy.outputs.push_back(split(placement));
    strategy.mesh_dims = declared.mesh_dims;
  }
  return list;
}

std::string no_declared_strategy(const Problem& problem, const Node& node) {
  std::string text = "\"" + node.key + "\" (" + node.op + ") can run in none of the ways that the model lists for it: ";
  for (std::size_t dim = 0; dim < problem.mesh.shape.size(); ++dim) {
    if (problem.mesh.shape[dim] == 1) continue;
    const std::string fault = fault_along(problem, node, dim);
    if (!fault.empty()) return text.append(fault);
  }
  return text.append("along all mesh dims together ").append(kTorn);
}

Tie tie(const std::vector<Strategy>& first, const std::vector<Strategy>& second) {
  using Choice = std::array<std::uint16_t, costs::kMaxMeshDims>;
  std::map<Choice, std::int32_t> states;
  for (const auto* side : {&first, &second}) {
    for (const Strategy& strategy : *side) states.try_emplace(strategy.one_dim, 0);
  }
  const auto count = static_cast<std::int32_t>(states.size());
  std::int32_t next = 0;
  for (auto& [choice, state] : states) state = next++;

  Tie made;
  for (const Strategy& strategy : first) made.first.push_back(states.at(strategy.one_dim));
  for (const Strategy& strategy : second) made.second.push_back(states.at(strategy.one_dim));
  made.can_hold = first.size() + second.size() > states.size();
  made.table = equality_table(count);
  return made;
}

}  // namespace autopar::partition
