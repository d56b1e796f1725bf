#pragma once

#include "engine/cost_network.h"

namespace autopar::engine {

/// One pass over the variables: each takes the value that costs least with what those before it took, or
/// (`by_usage`) of those not forbidden the one that uses least. For when there is no time for more; the result may be
/// forbidden.
Assignment greedy_assignment(const CostNetwork& network, bool by_usage);

}  // namespace autopar::engine
