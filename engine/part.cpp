#include "engine/part.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/bound.h"
#include "engine/index.h"

namespace autopar::engine {

namespace {

/// `live` of a whole network as its short form needs it: a variable keeps what any that it stands for has.
LiveValues live_of_short(const LiveValues& live, const ShortNetwork& shortened) {
  LiveValues left(live.size());
  const auto join = [&](std::size_t into, const std::vector<std::int32_t>& values) {
    std::vector<std::int32_t> both;
    std::ranges::set_union(left[into], values, std::back_inserter(both));
    left[into] = std::move(both);
  };
  for (std::size_t v = 0; v < live.size(); ++v) join(ix(shortened.variable_of[v]), live[v]);
  // An edge from copy to copy stands for edges whose ends are both like its first one.
  for (std::size_t v = 0; v < live.size(); ++v) {
    const std::size_t other = ix(shortened.alike[v]);
    if (other == v) continue;
    join(other, left[v]);
    left[v] = left[other];
  }
  for (std::size_t v = 0; v < live.size(); ++v) {
    if (!std::cmp_equal(shortened.variable_of[v], v)) left[v] = {live[v].front()};  // gone
  }
  return left;
}

/// Values without a partner are taken out. Nothing if no assignment is left that can be allowed.
std::optional<Part> start_part(const CostNetwork& network, LiveValues live, const Core* like) {
  if (!propagate(network, live)) return std::nullopt;
  Part part;
  part.core = std::make_unique<const Core>(network, live, like);
  if (std::ranges::any_of(part.core->capacity(), [](std::int64_t left) { return left < 0; })) return std::nullopt;
  part.dual = std::make_unique<Dual>(*part.core);
  part.live = std::move(live);
  return part;
}

}  // namespace

std::optional<Part> make_part(const CostNetwork& network, LiveValues live, const Part* whole) {
  std::optional<Part> part = start_part(network, std::move(live), nullptr);
  if (part && whole) part->dual->warm_start(*whole->dual);
  return part;
}

std::optional<Part> make_part(const CostNetwork& network, LiveValues live, const Part& small,
                              const ShortNetwork& shortened) {
  std::optional<Part> part = start_part(network, std::move(live), small.core.get());
  if (part) part->dual->warm_start(*small.dual, shortened.edge_of);
  return part;
}

Part make_short_part(const CostNetwork& network, const LiveValues& live, const ShortNetwork& shortened) {
  Part part;
  part.live = live_of_short(live, shortened);
  part.core = std::make_unique<const Core>(network, part.live, shortened);
  part.dual = std::make_unique<Dual>(*part.core);
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
