#pragma once

#include <cstdint>
#include <vector>

#include "costs/graph.h"
#include "engine/cost_network.h"
#include "partition/uses.h"

namespace autopar::partition {

/// When the nodes of a graph run: the forward pass in the order of the graph, then the backward pass in the order of
/// the graph, which is autograd's. The op at place p has two time points: at `read_time` its inputs are redistributed,
/// at `run_time` it runs. What a node gives to a graph output is redistributed right behind it.
struct Timeline {
  std::vector<std::int32_t> place;    ///< per Graph::nodes; graph inputs: -1
  std::vector<std::int32_t> node_at;  ///< by place

  static Timeline of(const costs::Graph& graph);

  std::int32_t read_time(std::int32_t node) const { return 2 * place[static_cast<std::size_t>(node)]; }
  std::int32_t run_time(std::int32_t node) const { return read_time(node) + 1; }
  /// Number of time points. The last is behind all nodes: gradients are there, the optimizer steps.
  std::int32_t num_times() const { return 2 * static_cast<std::int32_t>(node_at.size()) + 1; }
  /// The node that reads or runs at `time`; -1 behind the last.
  std::int32_t node_of(std::int32_t time) const {
    return time + 1 < num_times() ? node_at[static_cast<std::size_t>(time / 2)] : -1;
  }
};

/// A tensor that takes memory over a span of time points, whatever the placements are.
///
/// A tensor is what a node gives (kValue), the copy that all readers of a value in a phase share (kCopy), what is kept
/// of a value from forward to backward (kSaved), or what one reader gets (kRead). Made by a redistribution it has
/// storage of its own, else it is the one that it is made from, as is a view. So tensors form trees, the storage of
/// which depends on the placements; to keep that a sum over single tensors and pairs, each storage is counted at one of
/// its tensors: the first that is needed by itself or by more than one other. Those behind it count only if they are
/// moved. What this leaves out is a storage needed by several tensors all of which are moved: it counts as held while
/// they are.
struct Holding {
  enum class Kind : std::uint8_t { kValue, kCopy, kSaved, kRead };
  Kind kind = Kind::kValue;
  costs::ValueRef value;
  std::int32_t uses = -1;  ///< all but kValue: index into collect_uses()
  std::int32_t use = -1;   ///< kRead: index into PhaseUses::uses
  bool only_if_moved = false;
  bool is_making = false;  ///< not the tensor itself, but the buffers that the redistribution that makes it needs
  engine::Span span;
};

/// All holdings of a training step. `uses` is collect_uses(graph); `is_saved` says per entry, all of which must be of
/// forward values read in the backward, where a kSaved tensor stands between: made after the last forward use.
/// Graph inputs are held from the first time point to the last.
std::vector<Holding> find_holdings(const costs::Graph& graph, const Timeline& timeline,
                                   const std::vector<PhaseUses>& uses, const std::vector<char>& is_saved);

/// Per entry of `uses`, the time points from behind a value's last use in the forward to its first in the backward,
/// that included: when what is saved of it can stand for it. Empty for values that are not saved or are graph inputs.
std::vector<engine::Span> saved_spans(const costs::Graph& graph, const Timeline& timeline,
                                      const std::vector<PhaseUses>& uses);

}  // namespace autopar::partition
