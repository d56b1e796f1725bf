#pragma once

#include <vector>

#include "costs/graph.h"
#include "costs/redistribute.h"
#include "costs/strategy.h"
#include "engine/cost_network.h"
#include "partition/choices.h"

namespace autopar::partition {

/// Drops strategies that another one can stand in for at no more cost: it redistributes the inputs from the one's
/// placements to its own, runs, and redistributes the outputs back. By the triangle inequality of redistribution times
/// a plan is no worse with it, whatever the neighbours choose. What is left keeps its order. Strategies that look the
/// same from outside are a case of this.
///
/// `prices`: compute time of each strategy. Each phase that reads an output would have it redistributed for itself.
/// Where the memory of the inputs or outputs counts, only a strategy that leaves them as they are stands in.
void drop_dominated(const costs::Graph& graph, const costs::Node& node, const costs::Redistributor& redistributor,
                    const NodeContext& context, std::vector<costs::Strategy>& strategies,
                    std::vector<engine::Cost>& prices);

}  // namespace autopar::partition
