#include "launch/solve_tables.h"

#include <fmt/format.h>

#include <cstdio>

#include "io/check_solution.h"
#include "io/file.h"
#include "io/input_error.h"
#include "launch/exit_codes.h"
#include "launch/stopwatch.h"
#include "launch/task.h"

namespace autopar::launch {
namespace {

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

TableResult solve_tables(const TableTask& task, const engine::Options& options, engine::Comm& comm,
                         ProgressLine& progress) {
  const Stopwatch watch;
  Timeline timeline;
  partition::SharedSolver solver(options, comm, [&](const engine::Progress& now) {
    timeline.add(now.seconds, now.cost, now.bound);
    progress.show(now);
  });
  TableResult result;
  result.solution = solver.solve(task.problem.network, options);
  solver.leave();
  result.solve_s = watch.seconds();
  timeline.add(result.solve_s, result.solution.cost, result.solution.bound);
  result.timeline = timeline.take();
  return result;
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
