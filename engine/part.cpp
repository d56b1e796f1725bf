#include "engine/part.h"

#include <algorithm>
#include <utility>

#include "engine/bound.h"
#include "engine/index.h"

namespace autopar::engine {

std::optional<Part> make_part(const CostNetwork& network, LiveValues live, const Part* whole) {
  if (!propagate(network, live)) return std::nullopt;
  Part part;
  part.core = std::make_unique<const Core>(network, live);
  if (std::ranges::any_of(part.core->capacity(), [](std::int64_t left) { return left < 0; })) return std::nullopt;
  part.dual = std::make_unique<Dual>(*part.core);
  if (whole) part.dual->warm_start(*whole->dual);
  part.live = std::move(live);
  return part;
}

LiveValues fixed(const Dual& dual, const LiveValues& live, Cost target) {
  const std::vector<std::vector<Cost>> reduced = dual.reduced_costs();
  LiveValues left(live.size());
  for (std::size_t v = 0; v < live.size(); ++v) {
    const VariableUsage& usage = dual.core().variables()[v].usage;
    const std::vector<std::int64_t> room = usage.room(dual.core().capacity());
    for (std::size_t x = 0; x < live[v].size(); ++x) {
      const bool fits = usage.empty() || usage.fits(static_cast<std::int32_t>(x), room);
      if (reduced[v][x] <= target - dual.bound() && fits) left[v].push_back(live[v][x]);
    }
  }
  return left;
}

std::size_t open_values(const LiveValues& live) {
  std::size_t count = 0;
  for (const std::vector<std::int32_t>& values : live) count += values.size() < 2 ? 0 : values.size();
  return count;
}

}  // namespace autopar::engine
