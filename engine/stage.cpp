#include "engine/stage.h"

#include <utility>

#include "engine/index.h"

namespace autopar::engine {
namespace {

constexpr std::int32_t kFirstCut = 1 << 30;  // above all times in a network that presolve made

}  // namespace

Stage::Stage(const CostNetwork& network, const PresolveSteps& steps) : presolve_(network, steps) { finish(); }

Stage::Stage(std::shared_ptr<const Stage> before, const LiveValues& live, const PresolveSteps& steps)
    : before_(std::move(before)), presolve_(before_->network(), live, steps) {
  finish();
}

Stage::Stage(std::shared_ptr<const Stage> before, std::vector<Join> joins, const PresolveSteps& steps)
    : before_(std::move(before)),
      joined_(std::make_unique<const JoinedNetwork>(before_->network(), std::move(joins))),
      presolve_(joined_->network(), steps) {
  finish();
}

Stage::Stage(std::shared_ptr<const Stage> before, const std::vector<Cut>& cuts, const PresolveSteps& steps)
    : before_(std::move(before)),
      presolve_(with_cuts(before_->network(), cuts), steps),
      num_cuts_(static_cast<std::int32_t>(cuts.size())) {
  finish();
}

void Stage::finish() {
  constant_ = add(before_ ? before_->constant_ : 0, presolve_.constant());
  if (before_) {
    first_cut_ = end_of_times(before_->network());
    num_cuts_ += before_->num_cuts_;
  }
  if (infeasible()) return;
  core_ = std::make_unique<const Core>(network(), all_values(network()));
  for (std::int32_t time : core_->times()) points_.push_back(name_of(time));
}

std::int32_t Stage::name_of(std::int32_t time) const {
  if (!before_) return time;
  // Without the step that reduces usage, times stay as they were.
  const std::int32_t in = presolve_.times().empty() ? time : presolve_.times()[ix(time)];
  return in < first_cut_ ? before_->name_of(in) : kFirstCut + before_->num_cuts_ + in - first_cut_;
}

std::int64_t Stage::num_values() const {
  std::int64_t count = 0;
  for (std::int32_t v = 0; v < network().num_variables(); ++v) count += network().domain(v).size();
  return count;
}

Assignment Stage::restore(const Assignment& values) const {
  Assignment assignment = presolve_.restore(values);
  if (joined_) assignment = joined_->restore(assignment);
  return before_ ? before_->restore(assignment) : assignment;
}

Assignment Stage::reduce(const Assignment& original) const {
  if (!before_) return presolve_.reduce(original);
  Assignment values = before_->reduce(original);
  if (joined_) values = joined_->reduce(values);
  return presolve_.reduce(values);
}

std::vector<double> Stage::prices_from(const Stage& before, const std::vector<double>& prices) const {
  return carry_prices(before.points_, prices, points_);
}

}  // namespace autopar::engine
