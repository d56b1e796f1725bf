#include "partition/plan_search.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "engine/index.h"
#include "partition/held_memory.h"
#include "partition/model_network.h"
#include "partition/overlap_networks.h"

namespace autopar::partition {
namespace {

using engine::Cost;
using engine::Status;

/// At most so many time points are added at once, and no two nearer than this part of all.
constexpr std::size_t kMostNewPoints = 3;
constexpr std::int32_t kFewestApart = 16;
/// Offers to run again make a network too hard to solve to the end: this near is near enough to decide.
constexpr double kOffersGap = 0.002;
/// Of the communication that hides, so much counts where its amount is all but free.
constexpr std::int64_t kLittleShare = 8;
constexpr double kShareGap = 0.0002;
constexpr double kGoodGap = 0.001;
/// How far multipliers move in each round, and after how many that did not help they stay.
constexpr std::array<std::int64_t, 14> kSteps = {384, 256, 192, 144, 108, 81, 61, 46, 34, 26, 19, 14, 10, 7};
constexpr int kMostIdleRounds = 6;
/// Where memory makes each network harder, there are so many rounds.
constexpr std::size_t kMostRoundsInMemory = 3;
/// Rounds of deciding what runs again, and how much of the limit is left free where a round's choice did not fit.
constexpr int kMostRounds = 6;
constexpr std::int64_t kMarginShare = 50;
/// The least rise of the bound that is told.
constexpr std::int64_t kProgressShare = 5000;

using engine::ix;

/// The highest peaks of `memory` above `limit`, apart from each other.
std::vector<std::int32_t> peaks(const HeldMemory& memory, std::int64_t limit) {
  const auto num_times = static_cast<std::int32_t>(memory.bytes.size());
  std::vector<std::int32_t> found;
  for (std::size_t i = 0; i < kMostNewPoints; ++i) {
    std::int32_t highest = -1;
    for (std::int32_t time = 0; time < num_times; ++time) {
      const std::int64_t bytes = memory.bytes[ix(time)];
      if (bytes <= limit || (highest >= 0 && bytes <= memory.bytes[ix(highest)])) continue;
      const auto is_near = [&](std::int32_t other) { return std::abs(other - time) * kFewestApart < num_times; };
      if (std::none_of(found.begin(), found.end(), is_near)) highest = time;
    }
    if (highest < 0) break;
    found.push_back(highest);
  }
  return found;
}

/// The best cost and bound at each time at which one of them got better: by so much at least, as a bound rises in many
/// small steps.
std::vector<engine::ProgressPoint> progress_of(std::vector<engine::ProgressPoint> events) {
  std::ranges::stable_sort(events, {}, &engine::ProgressPoint::seconds);
  std::vector<engine::ProgressPoint> points;
  engine::ProgressPoint now;
  for (const engine::ProgressPoint& event : events) {
    now = {event.seconds, std::min(now.cost, event.cost), std::max(now.bound, event.bound)};
    const bool is_better = points.empty() || now.cost < points.back().cost ||
                           now.bound - points.back().bound > points.back().bound / kProgressShare;
    if (is_better) points.push_back(now);
  }
  if (!points.empty()) points.push_back(now);
  return points;
}

class PlanSearch {
 public:
  PlanSearch(const PlanSearchInput& input, const engine::Options& options, SharedSolver& solver)
      : input_(input),
        options_(options),
        solver_(solver),
        limit_(input.problem.pins.memory_limit_bytes),
        nothing_(input.problem.graph.nodes.size(), 0),
        points_(input.points) {
    result_.bound = input.bound;
  }

  PlanSearchResult run() {
    if (const std::vector<char>& wanted = input_.problem.pins.recompute; !wanted.empty()) {
      search_variant(Variant(input_.problem, wanted, true), wanted, true);
    } else if (!points_.empty()) {
      search_at_points();
    } else {
      search();
    }
    result_.points = points_;
    if (result_.plan) {
      const bool is_proven = static_cast<double>(cost() - result_.bound) <= options_.gap * static_cast<double>(cost());
      result_.status = is_proven                  ? Status::kOptimal
                       : solver_.is_out_of_time() ? Status::kLimitReached
                                                  : Status::kNotProven;
      if (is_proven && options_.gap <= 0) result_.bound = cost();
      events_.push_back({solver_.seconds(), cost(), result_.bound});
    }
    result_.progress = progress_of(std::move(events_));
    return std::move(result_);
  }

 private:
  Cost cost() const { return result_.plan->cost_ps; }

  void search() {
    const engine::Solution found = solve(input_.problem, *input_.first, options_);
    raise_bound(found.bound);
    if (found.assignment.empty()) {
      result_.status = found.status;
      return;
    }
    Plan plan = make_plan(input_.problem, input_.redistributor, *input_.first, found.assignment);
    if (plan.memory.peak_bytes <= limit_) {
      keep(std::move(plan), input_.problem, nothing_);
      return;
    }
    add_points(Variant(input_.problem, nothing_, true), held_memory(input_.problem, plan));
    search_at_points();
  }

  void search_at_points() {
    if (input_.problem.pins.may_recompute && !input_.reprice) {
      search_repeats();
    } else {
      search_variant(Variant(input_.problem, nothing_, true), nothing_, true);
    }
  }

  /// Decides what runs again and searches for the best plan that does so, until that plan is as good as the bound of
  /// all, or nothing new is learnt.
  void search_repeats() {
    const Offers offers(input_.problem);
    std::int64_t margin = 0;
    for (int round = 0; round < kMostRounds && may_solve(); ++round) {
      const std::size_t known = points_.size();
      std::vector<char> which;
      if (!decide_repeats(offers, margin, which)) return;
      const bool found = search_variant(Variant(input_.problem, which, true), which, false);
      if (found && cost() <= result_.bound + static_cast<Cost>(options_.gap * static_cast<double>(cost()))) return;
      if (points_.size() > known) continue;
      if (found) return;
      margin += limit_ / kMarginShare;
    }
  }

  /// Solves the network of all offers. Returns false if there is no solution.
  bool decide_repeats(const Offers& offers, std::int64_t margin, std::vector<char>& which) {
    ModelNetwork model = offers.network(input_.redistributor, points_);
    model.network.usage_limit -= margin;
    engine::Solution found = solve(offers.problem(), model, with_effort(options_, kOffersGap, 1));
    const bool may_branch = options_.max_branch_nodes < 0;
    if (found.status == Status::kNoSolution && may_branch && !solver_.is_out_of_time()) {
      found = solve(offers.problem(), model, with_effort(options_, 1, -1));  // the first that is found
    }
    if (margin == 0) raise_bound(found.bound);
    if (found.assignment.empty()) {
      if (!result_.plan) result_.status = margin == 0 ? found.status : Status::kNoSolution;
      return false;
    }
    which = offers.taken(model, found.assignment);
    return true;
  }

  /// Searches for the best plan of one variant, looking at ever more time points. Returns whether there is one.
  bool search_variant(const Variant& variant, const std::vector<char>& which, bool bounds_all) {
    const Problem& problem = variant.repeated.problem;
    while (may_solve()) {
      const ModelNetwork model = build_network(problem, input_.redistributor, {variant.times(points_), {}, {}});
      const engine::Solution found = solve(problem, model, options_);
      if (bounds_all) raise_bound(found.bound);
      if (found.assignment.empty()) {
        if (!result_.plan) result_.status = bounds_all ? found.status : Status::kNoSolution;
        return false;
      }
      Plan plan = make_plan(problem, input_.redistributor, model, found.assignment);
      if (plan.memory.peak_bytes <= limit_) {
        keep(std::move(plan), problem, which);
        return true;
      }
      if (solver_.is_out_of_time()) return false;
      if (!add_points(variant, held_memory(problem, plan))) {
        throw std::logic_error("a plan exceeds the memory limit where the search looked at it");
      }
    }
    return false;
  }

  bool add_points(const Variant& variant, const HeldMemory& memory) {
    const std::size_t before = points_.size();
    for (const std::int32_t time : peaks(memory, limit_)) points_.insert(variant.id(time));
    return points_.size() > before;
  }

  void keep(Plan plan, const Problem& problem, const std::vector<char>& which) {
    if (result_.plan && cost() <= plan.cost_ps) return;
    for (std::size_t i = 0; i < which.size(); ++i) {
      if (which[i] != 0) plan.recomputed.push_back(input_.problem.graph.nodes[i].key);
    }
    // Of what was met on the way, what is better than this plan needs more memory than there is, or was no plan's time.
    for (const engine::ProgressPoint& point : trace_) {
      if (point.cost >= plan.cost_ps) events_.push_back({point.seconds, point.cost, 0});
    }
    events_.push_back({solver_.seconds(), plan.cost_ps, 0});
    result_.plan = std::move(plan);
    result_.problem = problem;
  }

  engine::Solution solve(const Problem& problem, const ModelNetwork& model, const engine::Options& options) {
    trace_.clear();
    if (input_.reprice) return solve(input_.reprice(model.network), options);
    if (!problem.has_overlap) {
      engine::Solution found = solve(model.network, options);
      trace_ = solver_.trace();
      return found;
    }
    return solve_overlapped(problem, model, options);
  }

  /// Looks for the multipliers whose network bounds the overlapped time best. First communication that hides counts but
  /// little, which makes the best plan use no more of it than it needs; then not at all, for the bound. Where these do
  /// not meet, multipliers ascend in ever smaller steps, and plans are looked for beside the best that was met.
  engine::Solution solve_overlapped(const Problem& problem, const ModelNetwork& model, const engine::Options& options) {
    const OverlapNetworks networks(problem, input_.redistributor, model);
    engine::Solution best;
    best.bound = input_.bound;
    const engine::Options little = with_effort(options, kShareGap, 0);
    engine::Options anywhere = little;  // for networks that do not bound the time
    anywhere.cutoff = engine::kForbidden;
    const auto solve_priced = [&](const engine::CostNetwork& network, const engine::Options& effort) {
      engine::Solution found = solve(network, effort);
      if (!found.assignment.empty()) {
        found.cost = networks.time(found.assignment).total_ps();
        if (best.assignment.empty() || found.cost < best.cost) {
          best.assignment = found.assignment;
          best.cost = found.cost;
        }
      }
      trace_.push_back({solver_.seconds(), best.cost, 0});
      return found;
    };
    const auto is_done = [&] {
      const auto slack = static_cast<Cost>(std::max(options.gap, kGoodGap) * static_cast<double>(best.cost));
      return best.bound + slack >= best.cost || solver_.is_out_of_time();
    };
    const bool in_memory = !model.impl->time_points.empty();
    int num_idle = 0;
    engine::Assignment last_fitted;
    OverlapNetworks::Multipliers multipliers = networks.even(kLittleShare);
    for (std::size_t round = 0;; ++round) {
      engine::Solution found = solve_priced(networks.priced(multipliers), little);
      if (round == 0 && found.status == Status::kNoSolution && !solver_.is_out_of_time()) {
        found = solve_priced(networks.priced(multipliers), options);
      }
      const auto little_more = static_cast<Cost>(kShareGap * static_cast<double>(best.bound));
      num_idle = found.bound > best.bound + little_more ? 0 : num_idle + 1;
      for (const engine::ProgressPoint& point : solver_.trace())
        trace_.push_back({point.seconds, best.cost, point.bound});
      best.bound = std::max(best.bound, found.bound);
      best.status = found.status;
      const bool is_last =
          in_memory ? round + 1 >= kMostRoundsInMemory : round > kSteps.size() || num_idle >= kMostIdleRounds;
      if (found.assignment.empty() || is_done() || is_last) return best;
      if (round == 0) {
        if (networks.can_pipeline()) {  // plans that do without are the better ones of some models
          multipliers.pipelined = 0;
          solve_priced(networks.priced(multipliers), anywhere);
        }
        multipliers = networks.even(0);
        continue;
      }
      if (round == 1 && !in_memory) solve_priced(model.network, anywhere);  // as if all was waited for
      networks.ascend(found.assignment, kSteps[round - 1], multipliers);
      if (!in_memory && !is_done() && best.assignment != last_fitted) {
        last_fitted = best.assignment;
        solve_priced(networks.priced(networks.fitted(best.assignment)), anywhere);
      }
    }
  }

  bool may_solve() const { return input_.max_solves <= 0 || num_solves_ < input_.max_solves; }

  engine::Solution solve(const engine::CostNetwork& network, const engine::Options& options) {
    ++num_solves_;
    engine::Solution found = solver_.solve(network, options);
    result_.stats.add(found.stats);
    if (found.status == Status::kInfeasible) found.bound = std::max(found.bound, options.cutoff);
    return found;
  }

  void raise_bound(Cost bound) {
    for (const engine::ProgressPoint& point : trace_)
      events_.push_back({point.seconds, engine::kForbidden, point.bound});
    events_.push_back({solver_.seconds(), engine::kForbidden, bound});
    result_.bound = std::max(result_.bound, bound);
  }

  const PlanSearchInput& input_;
  const engine::Options& options_;
  SharedSolver& solver_;
  const std::int64_t limit_;
  const std::vector<char> nothing_;  // runs again
  PointIds points_;                  // all that were looked at
  int num_solves_ = 0;
  std::vector<engine::ProgressPoint> trace_;   // of the last problem that was solved
  std::vector<engine::ProgressPoint> events_;  // of all, for what is certain
  PlanSearchResult result_;
};

}  // namespace

PlanSearchResult search_plan(const PlanSearchInput& input, const engine::Options& options, SharedSolver& solver) {
  return PlanSearch(input, options, solver).run();
}

}  // namespace autopar::partition
