#include "engine/improvers.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "engine/index.h"

namespace autopar::engine {
namespace {

constexpr double kWideGap = 0.003;  // of the bound
constexpr int kFewSteps = 40;       // that a start is given
constexpr int kIdleSteps = 100;     // without success, after which it starts elsewhere
constexpr int kStartsPerRounding = 8;
constexpr int kMostKicks = 6;

}  // namespace

Board::State Board::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Board::set_stage(std::shared_ptr<const Stage> stage) {
  const std::lock_guard lock(mutex_);
  state_.stage = std::move(stage);
  state_.guide = nullptr;
  version_.store(++state_.version, std::memory_order_release);
}

void Board::set_guide(std::shared_ptr<const Guide> guide) {
  const std::lock_guard lock(mutex_);
  state_.guide = std::move(guide);
  version_.store(++state_.version, std::memory_order_release);
}

bool Board::offer(const Assignment& assignment) {
  const Cost cost = evaluate(network_, assignment);
  const std::lock_guard lock(mutex_);
  if (cost >= state_.cost) return false;
  state_.cost = cost;
  state_.best = std::make_shared<const Assignment>(assignment);
  version_.store(++state_.version, std::memory_order_release);
  return true;
}

bool Improver::step() {
  if (board_.version() != state_.version) follow();
  if (!search_) return false;
  const std::size_t work_before = search_->work();
  const Cost cost_before = search_->cost();
  const std::int64_t excess_before = search_->excess();
  search_->step(deadline_);
  work_ += search_->work() - work_before;
  ++num_steps_;
  idle_ = search_->cost() < cost_before || search_->excess() < excess_before ? 0 : idle_ + 1;
  if (search_->excess() == 0 && search_->cost() < kForbidden &&
      add(search_->cost(), stage_->constant()) < state_.cost) {
    board_.offer(stage_->restore(search_->values()));
  }
  if (idle_ > kIdleSteps) start_elsewhere();
  return true;
}

void Improver::follow() {
  const std::shared_ptr<const Guide> guide = state_.guide;
  state_ = board_.state();
  if (!state_.guide) {
    search_.reset();
    return;
  }
  const bool is_new = !search_ || stage_ != state_.stage;
  if (is_new) {
    stage_ = state_.stage;
    search_ = std::make_unique<NeighbourhoodSearch>(stage_->core(), seed_);
    seed_ += 1000;
  }
  const bool has_news = guide != state_.guide || is_new;
  if (has_news) search_->set_guide(state_.guide);
  if (is_new) return start(state_.best != nullptr);
  // Far from the bound, a rounding at better prices is a better place to start than anything found before.
  const Cost gap = add(state_.cost, -stage_->constant()) - state_.guide->bound;
  const bool is_far = static_cast<double>(gap) > kWideGap * static_cast<double>(std::abs(state_.guide->bound));
  if (has_news && is_far && num_steps_ >= kFewSteps) return start(false);
  const bool is_behind =
      state_.best && (search_->excess() > 0 || add(search_->cost(), stage_->constant()) > state_.cost);
  if (is_behind && idle_ >= kFewSteps) start(true);
}

/// Iterated local search: mostly near the best, now and then from a rounding.
void Improver::start_elsewhere() {
  const bool from_best = ++num_starts_ % kStartsPerRounding != 0;
  start(from_best);
  for (int i = 0; from_best && i < 1 + num_starts_ % kMostKicks; ++i) search_->kick();
}

void Improver::start(bool from_best) {
  search_->start(from_best && state_.best ? start_values() : state_.guide->rounding);
  num_steps_ = 0;
  idle_ = 0;
}

/// The best assignment, with the likeliest value where its own is gone from this stage.
std::vector<std::int32_t> Improver::start_values() const {
  std::vector<std::int32_t> values = stage_->reduce(*state_.best);
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (values[v] >= 0) continue;
    const std::vector<Cost>& reduced = state_.guide->reduced_costs[v];
    values[v] = static_cast<std::int32_t>(std::ranges::min_element(reduced) - reduced.begin());
  }
  return values;
}

ImproverThreads::ImproverThreads(Board& board, int count, std::uint32_t first_seed, const Deadline& deadline)
    : board_(board) {
  for (int i = 0; i < count; ++i) {
    group_.run([&board, seed = first_seed + static_cast<std::uint32_t>(i), deadline] {
      Improver improver(board, seed, deadline);
      while (!board.is_stopped() && !deadline.passed()) {
        if (!improver.step()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
  }
}

ImproverThreads::~ImproverThreads() {
  board_.stop();
  group_.wait();
}

}  // namespace autopar::engine
