#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "costs/graph.h"
#include "partition/plan.h"

namespace autopar::partition {

/// All readers of one value in one phase, in the order of nodes, then graph outputs. They share what is made of the
/// value in that phase; readers in the other phase have their own.
struct PhaseUses {
  costs::ValueRef value;
  costs::Phase phase = costs::Phase::kForward;
  std::vector<Redistribution::Use> uses;
};

/// In the order of values, forward before backward; without values that nothing reads. A node reads in its own phase; a
/// graph output reads in the phase of what makes it, gradients in the backward.
std::vector<PhaseUses> collect_uses(const costs::Graph& graph);

/// Per node, whether what it gives is there from the start of a step: a graph input, or a cast or view of such.
std::vector<char> given_nodes(const costs::Graph& graph);

/// Per entry of `uses`, which is collect_uses(graph), whether one redistribution may serve both phases: of values that
/// are there from the start and that nodes, and nothing else, read in the forward and in the backward. Entries for
/// which it may stand in pairs: the forward's, then the backward's.
std::vector<char> may_be_kept(const costs::Graph& graph, const std::vector<PhaseUses>& uses);

/// A value's entries in collect_uses(): of its readers in each phase; -1: none.
struct UsesOfValue {
  std::int32_t forward = -1;
  std::int32_t backward = -1;
  std::int32_t in(costs::Phase phase) const { return phase == costs::Phase::kForward ? forward : backward; }
};

/// By node and output.
using UsesOfValues = std::map<std::pair<std::int32_t, std::int32_t>, UsesOfValue>;
UsesOfValues uses_of_values(const std::vector<PhaseUses>& uses);

}  // namespace autopar::partition
