#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "costs/graph.h"
#include "costs/placement.h"
#include "costs/redistribute.h"
#include "costs/strategy.h"
#include "engine/cost_network.h"
#include "partition/point_usage.h"
#include "partition/problem.h"

namespace autopar::partition {

/// A list of distinct placements, ascending: the states of one end of an edge.
using PlacementList = std::vector<costs::Placements>;

/// Stands in a list for "there is no such tensor": the state of what an optional node gives, or of what is not kept. No
/// tensor has so many dims.
inline costs::Placements not_there() {
  costs::Placements placements;
  placements[0] = costs::Placement::shard(62);
  return placements;
}

/// Marks a state of a value that both phases read (may_be_kept() in uses.h): the tensor is made in the forward, and
/// kept for the backward. Without the mark each phase starts from what the producer gave. What has a sum pending is not
/// kept.
inline constexpr std::uint8_t kKeptMark = 128;  // above the codes of all placements
inline costs::Placements kept(costs::Placements placements) {
  placements[0] = costs::Placement::from_code(static_cast<std::uint8_t>(placements[0].code() + kKeptMark));
  return placements;
}
inline bool is_kept(const costs::Placements& state) { return state[0].code() >= kKeptMark; }
/// The placements of a state.
inline costs::Placements unmarked(costs::Placements state) {
  if (is_kept(state)) state[0] = costs::Placement::from_code(static_cast<std::uint8_t>(state[0].code() - kKeptMark));
  return state;
}

/// One tensor of a node, seen over all its strategies.
struct Port {
  PlacementList placements;
  engine::Projection state_of;  ///< strategy -> index in placements
};

/// What a node can choose from. Nodes of equal signature have equal choices.
struct Choices {
  std::vector<costs::Strategy> strategies;  ///< of an optional node the last is not one
  engine::Domain domain;  ///< value v is strategies[v]; costs in ps, usage in bytes per NodeContext::memory
  std::vector<engine::Cost> communication;  ///< per strategy, the part of its cost that is its program's all-reduces
  std::vector<Port> inputs;                 ///< per Node::inputs
  std::vector<Port> outputs;                ///< per Node::outputs
  bool is_unknown = false;                  ///< the op has no rule
  /// If strategies is empty because of the node's pin: what its first output could be without it.
  PlacementList possible;
};

/// What decides about a node's choices beside the node itself.
struct NodeContext {
  Pin pin;                               ///< on the first output
  std::vector<int> num_readers;          ///< per Node::outputs, how many phases read it
  std::vector<PointUsage::Term> memory;  ///< rows of the domain's usage
  bool inputs_count = false;             ///< as in PointUsage
  bool outputs_count = false;
  bool is_trained = false;   ///< a parameter with a gradient
  bool is_optional = false;  ///< it need not run: the last choice, without inputs and outputs, costs nothing
};

/// Prices the strategies of node `index`: those that the model declares for it, else its rule's, or replicated if the
/// op has none; graph inputs can be Replicate or Shard. Strategies that another can stand in for are left out
/// (dominance.h), declared ones are not.
Choices make_choices(const Problem& problem, const costs::Redistributor& redistributor, std::int32_t index,
                     const NodeContext& context);

/// What the first output of a node can be, pins aside.
struct PossiblePlacements {
  PlacementList on_mesh;                     ///< ascending
  std::set<costs::Placement> along_one_dim;  ///< what its rule gives along a mesh dim, if sizes allow it
  bool has_no_rule = false;                  ///< so that it is replicated
};
PossiblePlacements possible_placements(const Problem& problem, std::int32_t index);

/// All that make_choices looks at, as bytes: equal exactly if it would do the same.
std::string choices_signature(const costs::Graph& graph, std::int32_t index, const NodeContext& context);

/// The pin of each node: the user's, and those on gradients and mutations, which share their tensor's placements. Pins
/// on mesh dims of one device are dropped: all placements are the same there. Throws PinError if two contradict.
std::vector<Pin> effective_pins(const Problem& problem);

/// `pin` without its wishes on mesh dims of one device.
Pin without_trivial_dims(Pin pin, const costs::Mesh& mesh);

/// Groups of a list of placements for branching: level l has the placements on mesh dims 0..l (see Domain::levels).
std::vector<std::vector<std::int32_t>> placement_levels(const PlacementList& list, int mesh_rank);

/// "S(0),R; R,R": for messages; cut short when there are many.
std::string to_string(const PlacementList& list, int mesh_rank);

}  // namespace autopar::partition
