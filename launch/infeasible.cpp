#include "launch/infeasible.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "costs/memory.h"
#include "costs/placement.h"
#include "costs/views.h"
#include "launch/units.h"

namespace autopar::launch {
namespace {

using costs::Placement;

/// The gradient of each parameter as far as it surely takes memory of its own; nullptr: none does. Two may be views of
/// one tensor, and one may be a view of something smaller: of a scalar, expanded.
std::vector<const costs::TensorMeta*> gradients(const costs::Graph& graph) {
  std::vector<const costs::TensorMeta*> result(graph.nodes.size(), nullptr);
  std::set<costs::ValueRef> seen;
  for (const costs::GraphOutput& output : graph.outputs) {
    if (output.role != costs::OutputRole::kGradient) continue;
    const auto node = [&](costs::ValueRef value) -> const costs::Node& {
      return graph.nodes[static_cast<std::size_t>(value.node)];
    };
    costs::ValueRef stored = output.value;
    while (costs::is_view(node(stored).op)) stored = node(stored).inputs[0];
    const bool is_own = node(stored).role == costs::Role::kNone && seen.insert(stored).second;
    const costs::TensorMeta& gradient = graph.meta(output.value);
    if (is_own && graph.meta(stored).numel() >= gradient.numel()) {
      result[static_cast<std::size_t>(output.of)] = &gradient;
    }
  }
  return result;
}

/// Least bytes over all legal placements on mesh dims `mesh_dim` and up, with `placements` on the dims before, of a
/// parameter, its optimizer state and, if there is one, its gradient.
std::int64_t least_bytes(const partition::Problem& problem, const costs::TensorMeta& tensor,
                         const costs::TensorMeta* gradient, const partition::Pin& pin, costs::Placements& placements,
                         int mesh_dim) {
  if (mesh_dim == problem.mesh.rank()) {
    if (!costs::is_legal(tensor, placements, problem.mesh)) return std::numeric_limits<std::int64_t>::max();
    return costs::parameter_bytes(tensor, placements, problem.mesh, problem.pins.optimizer) +
           (gradient != nullptr ? costs::local_bytes(*gradient, placements, problem.mesh) : 0);
  }
  const auto& pinned = pin.at[static_cast<std::size_t>(mesh_dim)];
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t dim = -1; dim < tensor.rank(); ++dim) {
    const Placement placement = dim < 0 ? Placement::replicate() : Placement::shard(dim);
    if (pinned && *pinned != placement) continue;
    placements[mesh_dim] = placement;
    least = std::min(least, least_bytes(problem, tensor, gradient, pin, placements, mesh_dim + 1));
  }
  return least;
}

}  // namespace

std::int64_t least_parameter_bytes(const partition::Problem& problem, bool with_pins) {
  const std::vector<const costs::TensorMeta*> gradient = gradients(problem.graph);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < problem.graph.nodes.size(); ++i) {
    const costs::Node& node = problem.graph.nodes[i];
    if (node.role != costs::Role::kParameter) continue;
    costs::Placements placements;
    const partition::Pin pin = with_pins ? problem.pins.nodes[i] : partition::Pin{};
    total += least_bytes(problem, *node.outputs[0], gradient[i], pin, placements, 0);
  }
  return total;
}

std::string explain_infeasible(const partition::Problem& problem) {
  const std::int64_t limit = problem.pins.memory_limit_bytes;
  const std::int64_t free = least_parameter_bytes(problem, false);
  const std::int64_t pinned = least_parameter_bytes(problem, true);
  if (free > limit) {
    return fmt::format(
        "infeasible: parameters, gradients and optimizer state need at least {} ({} bytes) per device even when cut "
        "over all {} devices; the limit is {} ({} bytes)",
        bytes_text(free), free, problem.mesh.num_devices(), bytes_text(limit), limit);
  }
  std::set<std::string> sources;
  for (const auto* pins : {&problem.pins.nodes, &problem.pins.outputs}) {
    for (const partition::Pin& pin : *pins) {
      if (!pin.source.empty()) sources.insert(pin.source);
    }
  }
  if (pinned > limit) {
    return fmt::format(
        "infeasible: with the pins, parameters, gradients and optimizer state need at least {} ({} bytes) per device, "
        "without them {}; the limit is {} ({} bytes). Pins: {}",
        bytes_text(pinned), pinned, bytes_text(free), bytes_text(limit), limit, fmt::join(sources, "; "));
  }
  const auto is_declared = [](const costs::Node& node) { return !node.strategies.empty(); };
  const auto declared = std::find_if(problem.graph.nodes.begin(), problem.graph.nodes.end(), is_declared);
  if (declared != problem.graph.nodes.end()) {
    sources.insert(fmt::format("the strategies that the model lists for \"{}\" and others", declared->key));
  }
  if (sources.empty()) {
    return fmt::format(
        "infeasible: no combination of the ops' strategies keeps the memory of a step within {} ({} bytes) per device",
        bytes_text(limit), limit);
  }
  return fmt::format("infeasible: the limit of {} ({} bytes) per device and these cannot hold together: {}",
                     bytes_text(limit), limit, fmt::join(sources, "; "));
}

}  // namespace autopar::launch
