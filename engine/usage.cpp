#include "engine/usage.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/index.h"

namespace autopar::engine {
namespace {

/// Up to so many points each is compared with each.
constexpr std::size_t kFewPoints = 64;

/// What a variable uses from one of its times on, up to the next one.
struct Step {
  std::int32_t time = 0;
  std::int64_t least = 0;             // of all live values
  std::int64_t most = 0;              // above that
  std::vector<std::int64_t> amounts;  // per live value, above the least; empty: all zero
};

/// A variable's usage as a function of time, constant between the starts and ends of its spans.
std::vector<Step> steps_of(const CostNetwork& network, std::int32_t variable, const std::vector<std::int32_t>& live) {
  const std::vector<Span>& spans = network.variables[ix(variable)].spans;
  const Domain& domain = network.domain(variable);
  struct Change {
    std::int32_t time;
    std::size_t span;
    bool is_start;
  };
  std::vector<Change> changes;
  for (std::size_t s = 0; s < domain.usage.size(); ++s) {
    if (spans[s].start >= spans[s].end) continue;
    changes.push_back({spans[s].start, s, true});
    changes.push_back({spans[s].end, s, false});
  }
  std::ranges::sort(changes, {}, &Change::time);
  std::vector<std::int64_t> now(live.size(), 0);
  std::vector<Step> steps;
  for (std::size_t c = 0; c < changes.size(); ++c) {
    const std::vector<std::int64_t>& row = domain.usage[changes[c].span];
    for (std::size_t i = 0; i < live.size(); ++i) now[i] += changes[c].is_start ? row[ix(live[i])] : -row[ix(live[i])];
    if (c + 1 < changes.size() && changes[c + 1].time == changes[c].time) continue;
    const auto [least, most] = std::ranges::minmax(now);
    Step step{changes[c].time, least, most - least, {}};
    if (step.most > 0) {
      for (std::int64_t amount : now) step.amounts.push_back(amount - least);
    }
    const bool is_same = !steps.empty() && steps.back().least == step.least && steps.back().amounts == step.amounts;
    if (!is_same) steps.push_back(std::move(step));
  }
  return steps;
}

/// The step at `time`; null before the first.
const Step* step_at(const std::vector<Step>& steps, std::int32_t time) {
  const auto next = std::ranges::upper_bound(steps, time, {}, &Step::time);
  return next == steps.begin() ? nullptr : &*(next - 1);
}

/// The most that the live values of a variable use more at one of two steps than at the other.
std::int64_t most_above(const Step* high, const Step* low) {
  const std::int64_t fixed = (high ? high->least : 0) - (low ? low->least : 0);
  const bool same = high && low && high->amounts == low->amounts;
  if (same || ((!high || high->amounts.empty()) && (!low || low->amounts.empty()))) return fixed;
  if (!low || low->amounts.empty()) return fixed + high->most;
  std::int64_t most = std::numeric_limits<std::int64_t>::min();
  for (std::size_t x = 0; x < low->amounts.size(); ++x) {
    most = std::max(most, (high && !high->amounts.empty() ? high->amounts[x] : 0) - low->amounts[x]);
  }
  return fixed + most;
}

class Reduction {
 public:
  Reduction(const CostNetwork& network, const LiveValues& live) : network_(network), steps_(live.size()) {
    for (std::int32_t v = 0; v < network.num_variables(); ++v) {
      if (network.domain(v).usage.empty()) continue;
      steps_[ix(v)] = steps_of(network, v, live[ix(v)]);
      for (const Step& step : steps_[ix(v)]) times_.push_back(step.time);
    }
    for (std::size_t t = 0; t < network.base_usage.size(); ++t) times_.push_back(static_cast<std::int32_t>(t));
    std::ranges::sort(times_);
    times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
  }

  UsagePoints run() {
    find_points();
    if (points_.size() <= kFewPoints) {
      drop_implied_by_any();
    } else {
      drop_implied_by_neighbours();
    }
    UsagePoints result;
    for (const Point& point : points_) {
      result.times.push_back(point.time);
      result.capacity.push_back(network_.usage_limit - point.base);
    }
    for (const std::vector<Step>& steps : steps_) result.of.push_back(usage_of(steps, result.times));
    return result;
  }

 private:
  struct Point {
    std::int32_t time = 0;
    std::int64_t base = 0;              // used whatever is chosen
    std::vector<std::int32_t> changed;  // variables with a step between the point before, or later, and this one
  };

  std::int64_t base_at(std::int32_t time) const {
    return time >= 0 && ix(time) < network_.base_usage.size() ? network_.base_usage[ix(time)] : 0;
  }

  /// Times at which the most that can be used is above the limit.
  void find_points() {
    std::vector<std::int64_t> base(times_.size(), 0);  // changes, summed up below
    std::vector<std::int64_t> extra(times_.size(), 0);
    std::vector<std::vector<std::int32_t>> changed(times_.size());
    for (std::size_t v = 0; v < steps_.size(); ++v) {
      Step before;
      for (const Step& step : steps_[v]) {
        const auto at = ix(std::ranges::lower_bound(times_, step.time) - times_.begin());
        base[at] += step.least - before.least;
        extra[at] += step.most - before.most;
        changed[at].push_back(static_cast<std::int32_t>(v));
        before.least = step.least;
        before.most = step.most;
      }
    }
    std::int64_t base_now = 0;
    std::int64_t extra_now = 0;
    std::vector<std::int32_t> pending;
    for (std::size_t t = 0; t < times_.size(); ++t) {
      base_now += base[t];
      const std::int64_t fixed = base_at(times_[t]) + base_now;
      extra_now += extra[t];
      pending.insert(pending.end(), changed[t].begin(), changed[t].end());
      if (fixed + extra_now <= network_.usage_limit) continue;
      points_.push_back({times_[t], fixed, std::exchange(pending, {})});
    }
  }

  /// Whether no more is used at `less` than at `more`, whatever is chosen. Only `variables` differ between them.
  bool is_implied(const Point& less, const Point& more, const std::vector<std::int32_t>& variables) const {
    std::int64_t above = base_at(less.time) - base_at(more.time);
    for (std::int32_t v : variables) {
      above += most_above(step_at(steps_[ix(v)], less.time), step_at(steps_[ix(v)], more.time));
    }
    return above <= 0;
  }

  void drop_implied_by_any() {
    std::vector<std::int32_t> all;
    for (std::size_t v = 0; v < steps_.size(); ++v) {
      if (!steps_[v].empty()) all.push_back(static_cast<std::int32_t>(v));
    }
    for (std::size_t i = 0; i < points_.size();) {
      const bool implied = std::ranges::any_of(
          points_, [&](const Point& other) { return &other != &points_[i] && is_implied(points_[i], other, all); });
      if (implied) {
        points_.erase(points_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }

  void drop_implied_by_neighbours() {
    const auto unite = [](std::vector<std::int32_t>& into, const std::vector<std::int32_t>& from) {
      into.insert(into.end(), from.begin(), from.end());
      std::ranges::sort(into);
      into.erase(std::unique(into.begin(), into.end()), into.end());
    };
    std::vector<Point> kept;
    std::vector<std::int32_t> pending;
    for (Point& point : points_) {
      unite(point.changed, std::exchange(pending, {}));
      while (!kept.empty() && is_implied(kept.back(), point, point.changed)) {
        unite(point.changed, kept.back().changed);
        kept.pop_back();
      }
      if (!kept.empty() && is_implied(point, kept.back(), point.changed)) {
        pending = std::move(point.changed);
      } else {
        kept.push_back(std::move(point));
      }
    }
    points_ = std::move(kept);
  }

  static VariableUsage usage_of(const std::vector<Step>& steps, const std::vector<std::int32_t>& times) {
    VariableUsage usage;
    std::vector<const Step*> sources;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const auto first = std::ranges::lower_bound(times, steps[s].time);
      const auto last = s + 1 < steps.size() ? std::ranges::lower_bound(times, steps[s + 1].time) : times.end();
      if (first == last || steps[s].amounts.empty()) continue;
      const auto begin = static_cast<std::int32_t>(first - times.begin());
      const auto end = static_cast<std::int32_t>(last - times.begin());
      if (!sources.empty() && usage.pieces.back().last == begin && sources.back()->amounts == steps[s].amounts) {
        usage.pieces.back().last = end;
        continue;
      }
      usage.pieces.push_back({begin, end});
      sources.push_back(&steps[s]);
    }
    const std::size_t num_values = sources.empty() ? 0 : sources.front()->amounts.size();
    for (std::size_t x = 0; x < num_values; ++x) {
      for (const Step* step : sources) usage.amounts.push_back(step->amounts[x]);
    }
    return usage;
  }

  const CostNetwork& network_;
  std::vector<std::vector<Step>> steps_;  // of each variable
  std::vector<std::int32_t> times_;       // at which anything changes
  std::vector<Point> points_;
};

}  // namespace

LiveValues all_values(const CostNetwork& network) {
  LiveValues live(network.variables.size());
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    live[ix(v)].resize(ix(network.domain(v).size()));
    std::iota(live[ix(v)].begin(), live[ix(v)].end(), 0);
  }
  return live;
}

void VariableUsage::add(std::int32_t x, std::int64_t factor, std::vector<std::int64_t>& points) const {
  const auto amounts_of_x = of(x);
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    for (std::int32_t t = pieces[p].first; t < pieces[p].last; ++t) points[ix(t)] += factor * amounts_of_x[p];
  }
}

std::vector<std::int64_t> VariableUsage::room(const std::vector<std::int64_t>& capacity) const {
  std::vector<std::int64_t> least;
  for (const Piece& piece : pieces) {
    least.push_back(*std::min_element(capacity.begin() + piece.first, capacity.begin() + piece.last));
  }
  return least;
}

bool VariableUsage::fits(std::int32_t x, const std::vector<std::int64_t>& room) const {
  return std::ranges::equal(of(x), room, std::less_equal<>());
}

UsagePoints usage_points(const CostNetwork& network, const LiveValues& live) {
  if (network.usage_limit < 0) {
    UsagePoints none;
    none.of.resize(network.variables.size());
    return none;
  }
  return Reduction(network, live).run();
}

}  // namespace autopar::engine
