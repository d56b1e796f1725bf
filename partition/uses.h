#pragma once

#include <cstdint>
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

}  // namespace autopar::partition
