#pragma once

#include <string>

#include "engine/cost_network.h"

namespace autopar::io {

/// `network` as a cost-table file (docs/cost-tables.md): tables are written out for all strategies. Variable i is node
/// i. The format has one interval per node, so each further span of a variable becomes a node behind all variables,
/// with a strategy for each amount that the span can use and an edge that ties it to the variable's.
std::string format_problem(const std::string& name, const engine::CostNetwork& network);

}  // namespace autopar::io
