#include "partition/choices.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <type_traits>
#include <utility>

#include "costs/compute.h"
#include "costs/local_program.h"
#include "costs/memory.h"
#include "costs/rules/rule.h"
#include "engine/index.h"
#include "partition/declared.h"
#include "partition/dominance.h"

namespace autopar::partition {
namespace {

using costs::Node;
using costs::OneDimStrategy;
using costs::Placements;
using costs::Role;
using costs::Split;
using costs::Strategy;

using engine::ix;

/// A graph input comes from outside: whole or cut along any dim, never an unfinished sum. (The tangent of a scalar loss
/// is 1 on every rank.)
std::vector<OneDimStrategy> graph_input_strategies(const Node& node) {
  std::vector<OneDimStrategy> strategies = {costs::replicated(node)};
  const costs::TensorMeta& tensor = *node.outputs[0];
  for (std::int64_t dim = 0; dim < tensor.rank(); ++dim) {
    if (tensor.shape[static_cast<std::size_t>(dim)] > 1) strategies.push_back({{}, {Split::shard(dim)}});
  }
  return strategies;
}

bool has_no_rule(const Node& node) {
  return node.role == Role::kNone && node.strategies.empty() && costs::find_rule(node.op) == nullptr;
}

std::vector<OneDimStrategy> one_dim_strategies(const costs::Graph& graph, const Node& node) {
  if (node.role != Role::kNone) return graph_input_strategies(node);
  if (!node.strategies.empty()) return declared_strategies(node);
  if (const costs::Rule rule = costs::find_rule(node.op)) return rule(graph, node);
  return {costs::replicated(node)};
}

Port make_port(const std::vector<Strategy>& strategies, std::vector<Placements> Strategy::*side, std::size_t position) {
  Port port;
  for (const Strategy& strategy : strategies) port.placements.push_back((strategy.*side)[position]);
  std::sort(port.placements.begin(), port.placements.end());
  port.placements.erase(std::unique(port.placements.begin(), port.placements.end()), port.placements.end());
  for (const Strategy& strategy : strategies) {
    const auto found = std::lower_bound(port.placements.begin(), port.placements.end(), (strategy.*side)[position]);
    port.state_of.push_back(static_cast<std::int32_t>(found - port.placements.begin()));
  }
  return port;
}

/// Groups by the choice on mesh dims 0..l, numbered in order of first appearance.
std::vector<std::vector<std::int32_t>> strategy_levels(const std::vector<Strategy>& strategies, int mesh_rank) {
  std::vector<std::vector<std::int32_t>> levels;
  for (std::ptrdiff_t l = 1; l <= mesh_rank; ++l) {
    std::map<std::vector<std::uint16_t>, std::int32_t> groups;
    std::vector<std::int32_t>& level = levels.emplace_back();
    for (const Strategy& strategy : strategies) {
      const std::vector<std::uint16_t> prefix(strategy.one_dim.begin(), strategy.one_dim.begin() + l);
      level.push_back(groups.try_emplace(prefix, static_cast<std::int32_t>(groups.size())).first->second);
    }
  }
  return levels;
}

void apply_pin(const Pin& pin, Choices& choices) {
  std::vector<Strategy>& strategies = choices.strategies;
  const PlacementList possible = make_port(strategies, &Strategy::outputs, 0).placements;
  std::erase_if(strategies, [&](const Strategy& strategy) { return !pin.allows(strategy.outputs[0]); });
  if (strategies.empty()) choices.possible = possible;
}

class SignatureWriter {
 public:
  std::string take() { return std::move(bytes_); }

  template <typename T>
  void put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_text(const std::string& text) {
    put(text.size());
    bytes_ += text;
  }
  void put_meta(const costs::TensorMeta& meta) {
    put(meta.dtype);
    put(meta.shape.size());
    for (const std::int64_t size : meta.shape) put(size);
    for (const std::int64_t stride : meta.stride) put(stride);
  }
  void put_fusion(const costs::Fusion& fusion) {
    put(fusion.is_fused);
    put(fusion.starts_kernel);
    for (const char is_read : fusion.is_read) put(is_read);
    for (const char is_written : fusion.is_written) put(is_written);
  }
  /// A tensor is told by where it first stands in `inputs`; what it is comes with the inputs.
  void put_arg(const costs::Arg& arg, const std::vector<costs::ValueRef>& inputs) {
    put(static_cast<std::uint8_t>(arg.value.index()));
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, costs::Arg::None>) {
            return;
          } else if constexpr (std::is_same_v<T, costs::Arg::Name>) {
            put_text(value.text);
          } else if constexpr (std::is_same_v<T, std::string>) {
            put_text(value);
          } else if constexpr (std::is_same_v<T, costs::ValueRef>) {
            put(std::find(inputs.begin(), inputs.end(), value) - inputs.begin());
          } else if constexpr (std::is_same_v<T, costs::Arg::List>) {
            put(value.size());
            for (const costs::Arg& item : value) put_arg(item, inputs);
          } else {
            put(value);
          }
        },
        arg.value);
  }

 private:
  std::string bytes_;
};

/// Bytes of one tensor, or of the workspace of `node`, under each strategy.
std::vector<std::int64_t> usage_row(const Problem& problem, const Node& node, const PointUsage::Term& term,
                                    const std::vector<Strategy>& strategies) {
  const costs::TensorMeta& tensor = problem.graph.meta(term.value);
  std::vector<std::int64_t> row;
  for (const Strategy& strategy : strategies) {
    const Placements& placements = (term.is_input ? strategy.inputs : strategy.outputs)[ix(term.index)];
    if (placements == not_there()) {
      row.push_back(0);
      continue;
    }
    if (term.is_workspace) {
      row.push_back(costs::workspace_bytes(problem.graph, node, strategy, problem.mesh));
      continue;
    }
    row.push_back(term.has_optimizer_state
                      ? costs::parameter_bytes(tensor, placements, problem.mesh, problem.pins.optimizer)
                      : costs::local_bytes(tensor, placements, problem.mesh));
  }
  return row;
}

/// Of the all-reduces in the programs of `strategy`.
engine::Cost communication_ps(const Problem& problem, const costs::Redistributor& redistributor, const Node& node,
                              const Strategy& strategy) {
  if (node.role != Role::kNone) return 0;
  return costs::total_ps(costs::program_all_reduces(problem.graph, node, strategy, problem.mesh, problem.cluster.device,
                                                    redistributor.collectives()));
}

/// Of a parameter that is trained: that of its optimizer's step.
engine::Cost price_ps(const Problem& problem, const costs::Redistributor& redistributor, const Node& node,
                      const NodeContext& context, const Strategy& strategy) {
  if (context.is_trained) {
    return costs::optimizer_ps(*node.outputs[0], strategy.outputs[0], problem.mesh, problem.pins.optimizer,
                               problem.cluster.device);
  }
  if (node.role != Role::kNone) return 0;
  return costs::compute_ps(problem.graph, node, strategy, problem.mesh, problem.cluster) +
         communication_ps(problem, redistributor, node, strategy);
}

}  // namespace

Choices make_choices(const Problem& problem, const costs::Redistributor& redistributor, std::int32_t index,
                     const NodeContext& context) {
  const Node& node = problem.graph.nodes[ix(index)];
  Choices choices;
  const std::vector<OneDimStrategy> one_dim = one_dim_strategies(problem.graph, node);
  choices.is_unknown = has_no_rule(node);
  std::vector<Strategy>& strategies = choices.strategies;
  strategies = costs::combine(problem.graph, node, one_dim, problem.mesh);
  if (!node.outputs.empty() && !strategies.empty()) apply_pin(context.pin, choices);

  std::vector<engine::Cost>& prices = choices.domain.costs;
  for (const Strategy& strategy : strategies) {
    prices.push_back(price_ps(problem, redistributor, node, context, strategy));
  }
  // A graph input's placement is a choice of its own: a parameter's memory and gradient depend on it. Declared
  // strategies are few, and another node may have to choose alike.
  if (node.role == Role::kNone && node.strategies.empty() && !problem.keep_dominated) {
    drop_dominated(problem.graph, node, redistributor, context, strategies, prices);
  }
  for (const Strategy& strategy : strategies) {
    choices.communication.push_back(communication_ps(problem, redistributor, node, strategy));
  }
  if (context.is_optional) {
    strategies.push_back({std::vector<Placements>(node.inputs.size(), not_there()),
                          std::vector<Placements>(node.outputs.size(), not_there())});
    strategies.back().one_dim.fill(std::numeric_limits<std::uint16_t>::max());
    prices.push_back(0);
    choices.communication.push_back(0);
  }
  choices.domain.levels = strategy_levels(strategies, problem.mesh.rank());
  for (const PointUsage::Term& term : context.memory) {
    choices.domain.usage.push_back(usage_row(problem, node, term, strategies));
  }
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    choices.inputs.push_back(make_port(strategies, &Strategy::inputs, i));
  }
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    choices.outputs.push_back(make_port(strategies, &Strategy::outputs, o));
  }
  return choices;
}

PossiblePlacements possible_placements(const Problem& problem, std::int32_t index) {
  const Node& node = problem.graph.nodes[ix(index)];
  PossiblePlacements possible;
  if (node.outputs.empty() || !node.outputs[0]) return possible;
  const std::vector<OneDimStrategy> one_dim = one_dim_strategies(problem.graph, node);
  possible.has_no_rule = has_no_rule(node);
  for (const OneDimStrategy& strategy : one_dim) possible.along_one_dim.insert(strategy.outputs[0].placement);
  possible.on_mesh =
      make_port(costs::combine(problem.graph, node, one_dim, problem.mesh), &Strategy::outputs, 0).placements;
  return possible;
}

std::string choices_signature(const costs::Graph& graph, std::int32_t index, const NodeContext& context) {
  const Node& node = graph.nodes[ix(index)];
  SignatureWriter writer;
  writer.put(node.role);
  writer.put_text(node.op);
  writer.put(node.args.size());
  for (const costs::Arg& arg : node.args) writer.put_arg(arg, node.inputs);
  for (const auto& [name, arg] : node.kwargs) {
    writer.put_text(name);
    writer.put_arg(arg, node.inputs);
  }
  writer.put(node.inputs.size());
  for (const costs::ValueRef& input : node.inputs) writer.put_meta(graph.meta(input));
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    writer.put(static_cast<std::uint8_t>((node.outputs[o] ? 1 : 0) + 2 * context.num_readers[o]));
    if (node.outputs[o]) writer.put_meta(*node.outputs[o]);
  }
  writer.put(node.flops);
  writer.put_fusion(node.fusion);
  writer.put(node.strategies.size());
  for (const costs::DeclaredStrategy& strategy : node.strategies) {
    for (const costs::Placement placement : strategy.inputs) writer.put(placement.code());
    for (const costs::Placement placement : strategy.outputs) writer.put(placement.code());
    writer.put(strategy.even);
    writer.put(strategy.mesh_dims.size());
    for (const std::string& name : strategy.mesh_dims) writer.put_text(name);
  }
  writer.put(context.is_trained);
  writer.put(context.is_optional);
  writer.put(context.inputs_count);
  writer.put(context.outputs_count);
  writer.put(context.memory.size());
  for (const PointUsage::Term& term : context.memory) {
    writer.put(term.is_input);
    writer.put(term.index);
    writer.put(term.has_optimizer_state);
    writer.put(term.is_workspace);
    writer.put_meta(graph.meta(term.value));
  }
  for (std::size_t dim = 0; dim < context.pin.at.size(); ++dim) {
    if (!context.pin.at[dim]) continue;
    writer.put(static_cast<std::uint8_t>(dim));
    writer.put(context.pin.at[dim]->code());
  }
  return writer.take();
}

Pin without_trivial_dims(Pin pin, const costs::Mesh& mesh) {
  for (std::size_t dim = 0; dim < mesh.shape.size(); ++dim) {
    if (mesh.shape[dim] == 1) pin.at[dim].reset();
  }
  return pin;
}

std::vector<Pin> effective_pins(const Problem& problem) {
  std::vector<Pin> pins = problem.pins.nodes;
  pins.resize(problem.graph.nodes.size());
  for (Pin& pin : pins) pin = without_trivial_dims(std::move(pin), problem.mesh);
  for (std::size_t i = 0; i < problem.pins.outputs.size(); ++i) {
    const costs::GraphOutput& output = problem.graph.outputs[i];
    if (output.of < 0) continue;
    const Pin pin = without_trivial_dims(problem.pins.outputs[i], problem.mesh);
    Pin& tensor = pins[ix(output.of)];
    for (std::size_t dim = 0; dim < pin.at.size(); ++dim) {
      if (!pin.at[dim]) continue;
      if (tensor.at[dim] && *tensor.at[dim] != *pin.at[dim]) {
        throw PinError("\"" + problem.graph.nodes[ix(output.of)].key + "\" and its " +
                       (output.role == costs::OutputRole::kGradient ? "gradient" : "new value") +
                       " have the same placements, but on mesh dim " + std::to_string(dim) + " they are pinned to " +
                       costs::to_string(*tensor.at[dim]) + " (" + tensor.source + ") and " +
                       costs::to_string(*pin.at[dim]) + " (" + pin.source + ")");
      }
      if (!tensor.at[dim] && tensor.source != pin.source) {
        tensor.source += (tensor.source.empty() ? "" : " and ") + pin.source;
      }
      tensor.at[dim] = pin.at[dim];
    }
  }
  return pins;
}

std::vector<std::vector<std::int32_t>> placement_levels(const PlacementList& list, int mesh_rank) {
  std::vector<std::vector<std::int32_t>> levels;
  for (int l = 0; l < mesh_rank; ++l) {
    std::map<Placements, std::int32_t> groups;
    std::vector<std::int32_t>& level = levels.emplace_back();
    for (const Placements& placements : list) {
      Placements prefix;
      for (int dim = 0; dim <= l; ++dim) prefix[dim] = placements[dim];
      level.push_back(groups.try_emplace(prefix, static_cast<std::int32_t>(groups.size())).first->second);
    }
  }
  return levels;
}

std::string to_string(const PlacementList& list, int mesh_rank) {
  constexpr std::size_t kMostShown = 16;
  std::string text;
  for (std::size_t i = 0; i < list.size() && i < kMostShown; ++i) {
    text += (i > 0 ? "; " : "") + costs::to_string(list[i], mesh_rank);
  }
  if (list.size() > kMostShown) text += "; and " + std::to_string(list.size() - kMostShown) + " more";
  return text;
}

}  // namespace autopar::partition
