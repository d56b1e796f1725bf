#pragma once

#include <cstdint>

#include "engine/cost_network.h"

namespace autopar::launch {

/// The same choices at random costs, far above those of any redistribution: its best assignment is a random one that is
/// allowed. What is forbidden or used stays. The same seed gives the same costs. For testing what runs plans; built
/// with Problem::keep_dominated, odd strategies are among the choices.
engine::CostNetwork with_random_costs(engine::CostNetwork network, std::uint64_t seed);

}  // namespace autopar::launch
