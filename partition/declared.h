#pragma once

#include <string>
#include <vector>

#include "costs/graph.h"
#include "costs/strategy.h"
#include "engine/cost_network.h"
#include "partition/problem.h"

/// Strategies that the model file itself gives for single nodes.
namespace autopar::partition {

/// The declared strategies of `node`, in the order of the file.
std::vector<costs::OneDimStrategy> declared_strategies(const costs::Node& node);

/// Why none of the declared strategies of `node` is possible on the problem's mesh: which mesh dim has none, and why.
std::string no_declared_strategy(const Problem& problem, const costs::Node& node);

/// Two nodes that must choose the same entries of their declared strategies: an edge of cost 0 between strategies of
/// equal one_dim, forbidden else.
struct Tie {
  engine::Projection first;  ///< strategy of the first node -> state
  engine::Projection second;
  engine::Table table;    ///< states x states
  bool can_hold = false;  ///< some entry is possible for both
};
Tie tie(const std::vector<costs::Strategy>& first, const std::vector<costs::Strategy>& second);

}  // namespace autopar::partition
