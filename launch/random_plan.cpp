#include "launch/random_plan.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/intern.h"

namespace autopar::launch {
namespace {

constexpr std::uint64_t kMostPs = 1'000'000'000'000;  // a second

}  // namespace

engine::CostNetwork with_random_costs(engine::CostNetwork network, std::uint64_t seed) {
  std::vector<engine::Domain> domains;
  for (std::size_t v = 0; v < network.variables.size(); ++v) {
    engine::Domain domain = network.domain(static_cast<std::int32_t>(v));
    std::uint64_t state = engine::mix(engine::mix(0, seed), v);
    for (engine::Cost& cost : domain.costs) {
      state = engine::mix(state, domain.costs.size());
      if (cost < engine::kForbidden) cost = static_cast<engine::Cost>(state % kMostPs);
    }
    network.variables[v].domain = static_cast<std::int32_t>(domains.size());
    domains.push_back(std::move(domain));
  }
  network.domains = std::move(domains);
  return network;
}

}  // namespace autopar::launch
