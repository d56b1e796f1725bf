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

LiveValues fixed(const Part& part, Cost target) {
  const std::vector<std::vector<Cost>> reduced = part.dual->reduced_costs();
  LiveValues live(part.live.size());
  for (std::size_t v = 0; v < live.size(); ++v) {
    const CoreVariable& variable = part.core->variables()[v];
    const std::vector<std::int64_t> room = variable.usage.room(part.core->capacity());
    for (std::size_t x = 0; x < part.live[v].size(); ++x) {
      const bool fits = variable.usage.empty() || variable.usage.fits(static_cast<std::int32_t>(x), room);
      if (reduced[v][x] <= target - part.dual->bound() && fits) live[v].push_back(part.live[v][x]);
    }
  }
  return live;
}

std::size_t open_values(const LiveValues& live) {
  std::size_t count = 0;
  for (const std::vector<std::int32_t>& values : live) count += values.size() < 2 ? 0 : values.size();
  return count;
}

}  // namespace autopar::engine
