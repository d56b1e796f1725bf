#include "launch/solve_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "engine/anytime.h"
#include "engine/comm.h"
#include "engine/messages.h"
#include "engine/solve_record.h"
#include "io/check_solution.h"
#include "io/file.h"
#include "io/input_error.h"
#include "launch/exit_codes.h"
#include "launch/stopwatch.h"
#include "launch/task.h"

namespace autopar::launch {
namespace {

constexpr const char* kSolution = "solution";  // in the checkpoint

/// Keeps what the search knew, at each change.
class Timeline {
 public:
  void add(double seconds, engine::Cost cost, engine::Cost bound) {
    if (!points_.empty() && points_.back().cost == cost && points_.back().bound == bound) return;
    points_.push_back({seconds, cost, bound});
  }
  std::vector<io::TimelinePoint> take() { return std::move(points_); }

 private:
  std::vector<io::TimelinePoint> points_;
};

engine::AnytimeOptions options_of(const Arguments& arguments, double read_s) {
  return {arguments.engine, arguments.presolve, arguments.is_deterministic, read_s};
}

/// What presolve did, in one line.
std::string presolve_summary(const engine::Stats& stats) {
  const engine::PresolveCounts& counts = stats.presolve;
  return fmt::format(
      "Presolve {:.2f} s: {} of {} nodes left; removed {} impossible and {} dominated strategies, contracted {} nodes, "
      "eliminated {}, merged {} edges, folded {}; {} time points left\n",
      stats.presolve_s, stats.variables_after_presolve, stats.variables, counts.dead_values, counts.dominated_values,
      counts.contracted, counts.eliminated, counts.merged_edges, counts.folded_edges, counts.time_points);
}

}  // namespace

TableTask read_table_task(const Arguments& arguments, const std::string& text) {
  const Stopwatch watch;
  if (!arguments.model_options.empty()) {
    throw io::InputError(arguments.model_options.front(), "",
                         fmt::format("{} is a cost table, for which this option has no meaning", arguments.model));
  }
  TableTask task;
  task.problem = io::read_problem(arguments.model, text);
  task.source = {"autopar-search " AUTOPAR_VERSION, task.problem.name, io::content_hash(text)};
  check_output(arguments);
  task.read_s = watch.seconds();
  return task;
}

TableResult solve_tables(const TableTask& task, const Arguments& arguments, engine::Comm& comm, ProgressReport& progress,
                         Checkpoint& checkpoint) {
  const Stopwatch watch;
  Timeline timeline;
  engine::AnytimeOptions options = options_of(arguments, task.read_s);
  engine::Solution known;
  if (const auto bytes = checkpoint.find(kSolution)) known = engine::unpack_solution(*bytes);
  options.known = known.assignment;
  options.known_bound = known.bound;
  engine::Solution best = known;
  Stopwatch since_kept;
  const auto keep = [&](engine::Cost cost, engine::Cost bound, const engine::Assignment& assignment) {
    const bool is_better = cost < best.cost || (bound > best.bound && since_kept.seconds() >= 1);
    if (assignment.empty() || !is_better) return;
    since_kept = Stopwatch();
    if (cost < best.cost) best.assignment = assignment;
    best.cost = std::min(best.cost, cost);
    best.bound = std::max(best.bound, bound);
    checkpoint.put(kSolution, engine::pack(best));
  };
  TableResult result;
  result.solution = engine::solve_anytime(task.problem.network, options, comm, [&](const engine::Progress& now) {
    timeline.add(now.seconds, now.cost, now.bound);
    progress.show(now);
    if (now.assignment) keep(now.cost, now.bound, *now.assignment);
  });
  engine::Solution& solution = result.solution;
  keep(solution.cost, solution.bound, solution.assignment);
  const bool is_cut_short =
      solution.status == engine::Status::kLimitReached || solution.status == engine::Status::kNoSolution;
  if (is_cut_short) solution = engine::better_of(std::move(solution), known);
  result.solve_s = watch.seconds();
  timeline.add(result.solve_s, solution.cost, solution.bound);
  result.timeline = timeline.take();
  const engine::Stats& stats = solution.stats;
  comm.timing().add(engine::Phase::kRead, task.read_s);
  comm.timing().add(engine::Phase::kPresolve, stats.presolve_s);
  comm.timing().add(engine::Phase::kBound, stats.bound_s);
  comm.timing().add(engine::Phase::kSearch, stats.search_s);
  return result;
}

void help_solve_tables(const Arguments& arguments, engine::Comm& comm) {
  engine::solve_anytime({}, options_of(arguments, 0), comm);
}

std::string table_summary(const TableTask& task, const TableResult& result, const io::RunInfo& run) {
  const engine::CostNetwork& network = task.problem.network;
  const engine::Solution& solution = result.solution;
  std::string text =
      fmt::format("{}: {} nodes, {} edges\n\n", task.problem.name, network.num_variables(), network.edges.size());
  const bool is_best = solution.cost <= solution.bound;
  text += fmt::format("Cost    {}, {}\n", solution.cost, is_best ? "proven optimal" : "not proven optimal");
  text +=
      fmt::format("Bound   {}, gap {:.3g}%\n", solution.bound, 100 * io::relative_gap(solution.cost, solution.bound));
  if (network.usage_limit >= 0) {
    text += fmt::format("Usage   {} of {} at the peak\n", engine::peak_usage(network, solution.assignment),
                        network.usage_limit);
  }
  text += presolve_summary(solution.stats);
  text += fmt::format("Search  {:.2f} s ({} rank{}, {} thread{} each; reading {:.2f} s)\n", run.solve_s, run.ranks,
                      run.ranks == 1 ? "" : "s", run.threads, run.threads == 1 ? "" : "s", run.read_s);
  return text;
}

int check_tables(const Arguments& arguments) {
  const io::SolutionCheck check = io::check_solution(arguments.model, io::read_file(arguments.model),
                                                     arguments.solution, io::read_file(arguments.solution));
  if (!arguments.quiet) fmt::print("{}", check.facts);
  for (const std::string& fault : check.faults) {
    fmt::print(stderr, "autopar-search: error: {}: {}\n", arguments.solution, fault);
  }
  return check.faults.empty() ? kExitOptimal : kExitInvalid;
}

}  // namespace autopar::launch
