#include "launch/advice.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <set>
#include <utility>

#include "io/input_error.h"
#include "partition/plan_search.h"

namespace autopar::launch {
namespace {

using partition::LeastMemory;
using partition::PinError;
using partition::PlanSearchResult;
using partition::PointIds;
using partition::Problem;

/// Limits tried, in percent above what any plan needs: near it plans are hard to find.
constexpr std::array<std::int64_t, 3> kAbovePercent = {5, 15, 40};
/// Networks that one search may solve, and how hard it tries: any plan will do that is not far from the best.
constexpr int kMostSolves = 6;
constexpr std::int64_t kMostBranchNodes = 0;
constexpr std::size_t kMostRows = std::size_t{1} << 12;
constexpr double kGap = 0.1;
constexpr std::int64_t kMostTimesSize = 64;
/// Of more pins than this it is not tried which can stay.
constexpr std::size_t kMostPins = 6;

class Adviser {
 public:
  Adviser(const Task& task, const Arguments& arguments, const TaskFiles& files, const PointIds& points,
          partition::SharedSolver& solver)
      : task_(task), arguments_(arguments), files_(files), points_(points), solver_(solver) {}

  Advice run() {
    advice_.least = partition::least_memory(task_.problem, *task_.redistributor, points_, solver_);
    find_limit();
    try_recompute();
    try_pins();
    try_devices();
    return std::move(advice_);
  }

 private:
  PlanSearchResult search(const Problem& problem, const costs::Redistributor& redistributor, double gap) {
    engine::Options options = partition::with_effort(solver_.options(), gap, kMostBranchNodes);
    options.max_rows = std::min(options.max_rows, kMostRows);
    partition::PlanSearchInput input{problem, redistributor};
    input.points = points_;
    input.max_solves = kMostSolves;
    PlanSearchResult found = partition::search_plan(input, options, solver_);
    points_ = found.points;
    return found;
  }

  void find_limit() {
    Problem problem = task_.problem;
    for (const std::int64_t percent : kAbovePercent) {
      if (solver_.is_out_of_time()) return;
      const std::int64_t bound =
          std::max({advice_.least.bound_bytes, advice_.too_low, task_.problem.pins.memory_limit_bytes});
      problem.pins.memory_limit_bytes = bound + bound * percent / 100;
      const PointIds known = points_;
      const PlanSearchResult found = search(problem, *task_.redistributor, kGap);
      if (found.plan) {
        advice_.limit = Advice::Limit{problem.pins.memory_limit_bytes, found.plan->cost_ps};
        return;
      }
      if (found.status == engine::Status::kInfeasible) advice_.too_low = problem.pins.memory_limit_bytes;
      look_at_new_points(known);
    }
  }

  /// The search with a higher limit may have come upon places that need more.
  void look_at_new_points(const PointIds& known) {
    PointIds fresh;
    std::set_difference(points_.begin(), points_.end(), known.begin(), known.end(), std::inserter(fresh, fresh.end()));
    LeastMemory least = partition::least_memory(task_.problem, *task_.redistributor, fresh, solver_);
    if (least.bound_bytes > advice_.least.bound_bytes) advice_.least = std::move(least);
  }

  /// Whether a plan of `problem` within its limit was found.
  bool fits(const Problem& problem, const costs::Redistributor& redistributor) {
    if (solver_.is_out_of_time()) return false;
    const partition::LeastUsage least = partition::least_usage(problem, redistributor, advice_.least.point, solver_);
    if (least.bound_bytes > problem.pins.memory_limit_bytes) return false;
    return search(problem, redistributor, 1).plan.has_value();
  }

  void try_recompute() {
    if (task_.problem.pins.recompute.empty()) return;
    Problem problem = task_.problem;
    problem.pins.recompute.clear();
    advice_.recompute = fits(problem, *task_.redistributor);
  }

  void try_pins() {
    std::vector<std::string> sources = pin_sources(task_.problem.pins);
    if (sources.empty() || !fits(without_pins(sources), *task_.redistributor)) return;
    // Those that can stay, stay.
    for (std::size_t i = sources.size(); i-- > 0 && sources.size() > 1 && sources.size() <= kMostPins;) {
      std::vector<std::string> fewer = sources;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (fits(without_pins(fewer), *task_.redistributor)) sources = std::move(fewer);
    }
    advice_.pins = std::move(sources);
  }

  Problem without_pins(const std::vector<std::string>& sources) const {
    Problem problem = task_.problem;
    for (auto* pins : {&problem.pins.nodes, &problem.pins.outputs}) {
      for (partition::Pin& pin : *pins) {
        if (std::find(sources.begin(), sources.end(), pin.source) != sources.end()) pin = {};
      }
    }
    return problem;
  }

  void try_devices() {
    for (std::int64_t times = 2; times <= kMostTimesSize && !solver_.is_out_of_time(); times *= 2) {
      Arguments larger = arguments_;
      larger.mesh = task_.problem.mesh;
      larger.mesh->shape[0] *= times;
      try {
        Task task = read_task(larger, files_);
        build_task(task);
        if (fits(task.problem, *task.redistributor)) {
          advice_.times_size = times;
          return;
        }
      } catch (const io::InputError&) {  // a pin would leave devices without a piece
      } catch (const PinError&) {
      }
    }
  }

  const Task& task_;
  const Arguments& arguments_;
  const TaskFiles& files_;
  PointIds points_;  // all that were looked at
  partition::SharedSolver& solver_;
  Advice advice_;
};

}  // namespace

Advice find_advice(const Task& task, const Arguments& arguments, const TaskFiles& files, const PointIds& points,
                   partition::SharedSolver& solver) {
  return Adviser(task, arguments, files, points, solver).run();
}

std::vector<std::string> pin_sources(const partition::Pins& pins) {
  std::set<std::string> sources;
  for (const auto* some : {&pins.nodes, &pins.outputs}) {
    for (const partition::Pin& pin : *some) {
      if (!pin.source.empty()) sources.insert(pin.source);
    }
  }
  return {sources.begin(), sources.end()};
}

}  // namespace autopar::launch
