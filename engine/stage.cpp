#include "engine/stage.h"

#include <utility>

#include "engine/index.h"

namespace autopar::engine {
namespace {

constexpr std::int32_t kFirstCut = 1 << 30;  // above all times in a network that presolve made

}  // namespace

Stage::Stage(const CostNetwork& network, const PresolveSteps& steps)
    : Stage(nullptr, {nullptr, {}, Presolve(network, steps)}) {}

Stage::Stage(const Stage& before, const LiveValues& live, const PresolveSteps& steps)
    : Stage(&before, {before.trail_, {}, Presolve(before.network(), live, steps)}) {}

Stage::Stage(const Stage& before, const std::vector<Join>& joins, const PresolveSteps& steps)
    : Stage(&before, {before.trail_, joins, Presolve(with_joins(before.network(), joins), steps)}) {}

Stage::Stage(const Stage& before, const std::vector<Cut>& cuts, const PresolveSteps& steps)
    : Stage(&before, {before.trail_,
                      {},
                      Presolve(with_cuts(before.network(), cuts), steps),
                      0,
                      static_cast<std::int32_t>(cuts.size())}) {}

Stage::Stage(const Stage* before, Trail trail)
    : network_(trail.presolve.take_reduced()), constant_(trail.presolve.constant()) {
  if (before) {
    constant_ = add(constant_, before->constant_);
    trail.first_cut = end_of_times(before->network());
    trail.num_cuts += before->trail_->num_cuts;
  }
  trail_ = std::make_shared<const Trail>(std::move(trail));
  if (infeasible()) return;
  core_ = std::make_unique<const Core>(network_, all_values(network_));
  for (std::int32_t time : core_->times()) points_.push_back(trail_->name_of(time));
}

std::int32_t Stage::Trail::name_of(std::int32_t time) const {
  if (!before) return time;
  // Without the step that reduces usage, times stay as they were.
  const std::int32_t in = presolve.times().empty() ? time : presolve.times()[ix(time)];
  return in < first_cut ? before->name_of(in) : kFirstCut + before->num_cuts + in - first_cut;
}

Assignment Stage::Trail::restore(const Assignment& values) const {
  Assignment assignment = presolve.restore(values);
  assignment = restore_joined(joins, assignment);
  return before ? before->restore(assignment) : assignment;
}

Assignment Stage::Trail::reduce(const Assignment& original) const {
  if (!before) return presolve.reduce(original);
  Assignment values = before->reduce(original);
  values = reduce_joined(joins, values);
  return presolve.reduce(values);
}

std::int64_t Stage::num_values() const {
  std::int64_t count = 0;
  for (std::int32_t v = 0; v < network().num_variables(); ++v) count += network().domain(v).size();
  return count;
}

std::vector<double> Stage::prices_from(const Stage& before, const std::vector<double>& prices) const {
  return carry_prices(before.points_, prices, points_);
}

}  // namespace autopar::engine
