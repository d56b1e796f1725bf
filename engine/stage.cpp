#include "engine/stage.h"

#include <algorithm>
#include <utility>

#include "engine/index.h"

namespace autopar::engine {

Stage::Stage(const CostNetwork& network, const PresolveSteps& steps) : presolve_(network, steps) { finish(nullptr); }

Stage::Stage(std::shared_ptr<const Stage> before, const LiveValues& live, const PresolveSteps& steps)
    : before_(std::move(before)), presolve_(before_->network(), live, steps) {
  constant_ = before_->constant_;
  finish(&before_->times_);
}

void Stage::finish(const std::vector<std::int32_t>* times_before) {
  constant_ = add(constant_, presolve_.constant());
  if (infeasible()) return;
  core_ = std::make_unique<const Core>(network(), all_values(network()));
  // Without the step that reduces usage, times stay as they were.
  const std::vector<std::int32_t> of_network = usage_points(network(), all_values(network())).times;
  for (std::int32_t time : of_network) {
    const std::int32_t in = presolve_.times().empty() ? time : presolve_.times()[ix(time)];
    times_.push_back(times_before ? (*times_before)[ix(in)] : in);
  }
}

std::int64_t Stage::num_values() const {
  std::int64_t count = 0;
  for (std::int32_t v = 0; v < network().num_variables(); ++v) count += network().domain(v).size();
  return count;
}

Assignment Stage::restore(const Assignment& values) const {
  Assignment assignment = presolve_.restore(values);
  return before_ ? before_->restore(assignment) : assignment;
}

Assignment Stage::reduce(const Assignment& original) const {
  if (!before_) return presolve_.reduce(original);
  Assignment values = before_->reduce(original);
  return presolve_.reduce(values);
}

std::vector<double> Stage::prices_from(const Stage& before, const std::vector<double>& prices) const {
  // A point that went is implied by one nearby.
  std::vector<double> mine(times_.size(), 0);
  if (mine.empty()) return mine;
  for (std::size_t t = 0; t < prices.size(); ++t) {
    const auto next = std::ranges::lower_bound(times_, before.times_[t]);
    auto nearest = next == times_.end() ? next - 1 : next;
    if (nearest != times_.begin() && before.times_[t] - *(nearest - 1) < *nearest - before.times_[t]) --nearest;
    mine[ix(nearest - times_.begin())] += prices[t];
  }
  return mine;
}

}  // namespace autopar::engine
