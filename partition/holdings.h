#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "costs/graph.h"
#include "costs/memory.h"
#include "engine/cost_network.h"
#include "partition/uses.h"
#include "partition/windows.h"

namespace autopar::partition {

/// When the nodes of a graph run: the forward pass in the order of the graph, then the backward pass in the order of
/// the graph, which is autograd's. An op has a time point for each of its inputs, at which that is redistributed, one
/// at which it runs, and one behind, at which what it gives to graph outputs is redistributed, and what is saved of
/// values that it is the last to use.
struct Timeline {
  std::vector<std::int32_t> first_time;  ///< per Graph::nodes: the first of its time points; graph inputs: -1
  std::vector<std::int32_t> node_at;     ///< per time point; the last is behind all nodes, when gradients are there and
                                         ///< the optimizer steps: -1
  std::vector<std::int32_t> num_inputs;  ///< per Graph::nodes

  static Timeline of(const costs::Graph& graph);

  std::int32_t read_time(std::int32_t node, std::int32_t input) const {
    return first_time[static_cast<std::size_t>(node)] + input;
  }
  std::int32_t run_time(std::int32_t node) const { return read_time(node, num_inputs[static_cast<std::size_t>(node)]); }
  std::int32_t give_time(std::int32_t node) const { return run_time(node) + 1; }
  std::int32_t num_times() const { return static_cast<std::int32_t>(node_at.size()); }
  std::int32_t node_of(std::int32_t time) const { return node_at[static_cast<std::size_t>(time)]; }
};

/// A tensor that takes memory over a span of time points, whatever the placements are.
///
/// A tensor is what a node gives (kValue), what one redistribution makes of it for both phases (kKept), the copy that
/// all readers of a value in a phase share (kCopy), what is kept of a value from forward to backward (kSaved), or what
/// one reader gets (kRead). (kWorkspace is none, but what node `value.node` holds beside its inputs and outputs while
/// it runs.) Made by a redistribution it has storage of its own, else it is the one that it is made from, as is a view.
/// So tensors form trees, the storage of which depends on the placements; to keep that a sum over single tensors and
/// pairs, each storage is counted at one of its tensors: the first that is needed by itself or by more than one other.
/// Those behind it count only if they are moved. What this leaves out is a storage needed by several tensors all of
/// which are moved: it counts as held while they are.
struct Holding {
  enum class Kind : std::uint8_t { kValue, kKept, kCopy, kSaved, kRead, kWorkspace };
  Kind kind = Kind::kValue;
  costs::ValueRef value;
  std::int32_t uses = -1;  ///< kKept (the forward's), kCopy, kSaved, kRead: index into collect_uses()
  std::int32_t use = -1;   ///< kRead: index into PhaseUses::uses
  bool only_if_moved = false;
  /// If given: not the tensor itself, but the buffers that the redistribution that makes it needs then.
  std::optional<costs::Making> making = {};
  bool frees_source = false;  ///< of `making`: what it starts from is one of them, as nothing else needs it
  engine::Span span;
};

/// All holdings of a training step. `uses` is collect_uses(graph); `is_saved` says per entry, all of which must be of
/// forward values read in the backward, where a kSaved tensor stands between: made after the last forward use.
/// Graph inputs are held from the first time point to the last. `windows`: redistributions have flights; they start and
/// finish at the first time point of a node. nullptr: they have none. `may_be_missing`: what is saved may as well not
/// be (BuildOptions::is_optional), so that its making holds nothing.
std::vector<Holding> find_holdings(const costs::Graph& graph, const Timeline& timeline,
                                   const std::vector<PhaseUses>& uses, const std::vector<char>& is_saved,
                                   const Windows* windows, bool may_be_missing = false);

/// Per entry of `uses`, the time points from behind a value's last use in the forward to its first in the backward,
/// that included: when what is saved of it can stand for it. Empty for values that are not saved, are graph inputs, or
/// are read again at once.
std::vector<engine::Span> saved_spans(const costs::Graph& graph, const Timeline& timeline,
                                      const std::vector<PhaseUses>& uses);

}  // namespace autopar::partition
