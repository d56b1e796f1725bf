#pragma once

#include <random>
#include <utility>
#include <vector>

#include "engine/comm.h"
#include "engine/cost_network.h"
#include "engine/solve.h"

namespace autopar::partition::testing {

/// Any allowed assignment: the best at random prices of every value, far above those of moving anything.
inline engine::Assignment random_assignment(engine::CostNetwork network, std::mt19937& random) {
  std::vector<engine::Domain> domains;
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    domains.push_back(network.domain(v));
    for (engine::Cost& cost : domains.back().costs) {
      if (cost < engine::kForbidden) cost = static_cast<engine::Cost>(random() % 1000) * 1'000'000'000;
    }
    network.variables[static_cast<std::size_t>(v)].domain = v;
  }
  network.domains = std::move(domains);
  engine::Comm comm;
  engine::Options options;
  options.gap = 1;
  return engine::solve(network, options, comm).assignment;
}

}  // namespace autopar::partition::testing
