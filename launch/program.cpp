#include "launch/program.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "costs/rules/rule.h"
#include "io/file.h"
#include "io/input_error.h"
#include "io/write_plan.h"
#include "launch/advice.h"
#include "launch/cli.h"
#include "launch/exit_codes.h"
#include "launch/export_problem.h"
#include "launch/infeasible.h"
#include "launch/mesh_search.h"
#include "launch/progress.h"
#include "launch/random_plan.h"
#include "launch/solve_tables.h"
#include "launch/stopwatch.h"
#include "launch/summary.h"
#include "launch/task.h"
#include "launch/units.h"
#include "partition/plan_search.h"

namespace autopar::launch {
namespace {

/// What rank 0 tells the others: go on, or leave with this exit code.
struct Verdict {
  bool leave = false;
  int exit_code = 0;
  bool is_table = false;  ///< what is to be searched
};
static_assert(std::is_trivially_copyable_v<Verdict>);

/// Collective: rank 0's verdict on all ranks.
Verdict share(engine::Comm& comm, const Verdict& verdict) {
  std::string bytes(sizeof(Verdict), '\0');
  std::memcpy(bytes.data(), &verdict, sizeof(Verdict));
  comm.broadcast(bytes);
  Verdict shared;
  if (bytes.size() != sizeof(Verdict)) throw std::logic_error("rank 0 runs another version of the program");
  std::memcpy(&shared, bytes.data(), sizeof(Verdict));
  return shared;
}

/// The part of the program that only rank 0 runs, before and after the search.
class Rank0 {
 public:
  explicit Rank0(int ranks) : ranks_(ranks), log_(spdlog::stderr_color_mt("autopar-search")) {
    log_->set_pattern("%n: %^%l%$: %v");
  }

  Verdict prepare(int argc, char** argv) {
    const CommandLine line = parse_command_line(argc, argv);
    if (line.exit_code) {
      if (*line.exit_code == 0) {
        fmt::print("{}", line.text);
      } else {
        log_->error("{}", line.text);
      }
      return {true, *line.exit_code};
    }
    arguments_ = line.arguments;
    try {
      if (arguments_.check) return {true, check_tables(arguments_)};
      read(io::read_file(arguments_.model));
      if (!arguments_.export_problem.empty()) {
        io::write_file(arguments_.output, exported_problem(*task_));
        return {true, kExitOptimal};
      }
    } catch (const io::InputError& error) {
      return fail(kExitBadInput, error.what());
    } catch (const costs::NodeError& error) {
      return fail(kExitBadInput, fmt::format("{}: {}", arguments_.model, error.what()));
    } catch (const partition::PinError& error) {
      return fail(kExitInfeasible, error.what());
    }
    if (task_) warn_of_unknown_ops();
    progress_.emplace(!arguments_.quiet, !tables_);
    return {false, 0, tables_.has_value()};
  }

  Verdict search(engine::Comm& comm) {
    if (tables_) return search_tables(comm);
    return task_ ? search_model(comm) : search_model_on_meshes(comm);
  }

 private:
  /// A model or a cost table: its content tells.
  void read(const std::string& text) {
    const bool is_table = io::is_problem(text);
    if (!arguments_.export_problem.empty()) {
      arguments_.output = arguments_.export_problem;
    } else if (arguments_.output.empty()) {
      arguments_.output = default_output(arguments_.model, is_table ? "solution" : "plan");
    }
    if (is_table) {
      tables_.emplace(read_table_task(arguments_, text));
    } else if (arguments_.devices > 0) {
      meshes_ = meshes_to_choose_from(arguments_, text);
      check_output(arguments_);
      text_ = text;
    } else {
      task_.emplace(read_task(arguments_, text));
      if (arguments_.export_problem.empty()) build_task(*task_);
    }
  }

  Verdict search_tables(engine::Comm& comm) {
    const TableResult result = solve_tables(*tables_, arguments_, comm, *progress_);
    progress_->clear();
    const engine::Solution& solution = result.solution;
    if (solution.status == engine::Status::kInfeasible) {
      return fail(kExitInfeasible, fmt::format("{}: no solution is allowed", arguments_.model));
    }
    if (solution.assignment.empty() && tables_->problem.network.num_variables() > 0) {
      return fail(kExitNoSolution, "the time limit came before a solution was found");
    }
    const io::RunInfo run{ranks_, arguments_.engine.num_threads(), tables_->read_s, 0, result.solve_s};
    const std::string text = io::format_solution(solution, tables_->source, result.timeline,
                                                 arguments_.reproducible ? std::nullopt : std::optional(run));
    if (const auto failed = write_output(text)) return *failed;
    fmt::print("{}\n", io::choices_text(solution.assignment));
    if (!arguments_.quiet) {
      fmt::print("{}\nSolution written to {}\n", table_summary(*tables_, result, run), arguments_.output);
    }
    return {true, solution.status == engine::Status::kLimitReached ? kExitLimitReached : kExitOptimal};
  }

  Verdict search_model(engine::Comm& comm) {
    partition::PlanSearchInput input{task_->problem, *task_->redistributor, &task_->model};
    engine::Options options = arguments_.engine;
    if (arguments_.random_plan) {
      const std::uint64_t seed = *arguments_.random_plan;
      input.reprice = [seed](const engine::CostNetwork& network) { return with_random_costs(network, seed); };
      options.gap = 1;  // the first that is found will do
    }
    const Stopwatch watch;
    partition::SharedSolver solver(options, comm, [&](const engine::Progress& progress) { progress_->show(progress); });
    const partition::PlanSearchResult found = partition::search_plan(input, options, solver);
    const double solve_s = watch.seconds();
    const Verdict verdict = found.plan ? write(found, {}, solve_s) : explain(found, solver);
    solver.leave();
    return verdict;
  }

  Verdict search_model_on_meshes(engine::Comm& comm) {
    const Stopwatch watch;
    partition::SharedSolver solver(arguments_.engine, comm,
                                   [&](const engine::Progress& progress) { progress_->show(progress); });
    Verdict verdict;
    try {
      MeshSearch searched = search_meshes(meshes_, arguments_, text_, solver);
      const double solve_s = watch.seconds() - searched.task.read_s - searched.task.build_s;
      task_.emplace(std::move(searched.task));
      warn_of_unknown_ops();
      if (searched.found.plan) {
        verdict = write(searched.found, searched.meshes, solve_s);
      } else {
        log_->error("none of {} meshes of {} devices has a plan; of {}:", meshes_.size(), arguments_.devices,
                    mesh_text(task_->problem.mesh));
        verdict = explain(searched.found, solver);
      }
    } catch (const io::InputError& error) {
      verdict = fail(kExitBadInput, error.what());
    } catch (const costs::NodeError& error) {
      verdict = fail(kExitBadInput, fmt::format("{}: {}", arguments_.model, error.what()));
    } catch (const partition::PinError& error) {
      verdict = fail(kExitInfeasible, error.what());
    }
    solver.leave();
    return verdict;
  }

  void warn_of_unknown_ops() {
    for (const std::string& warning : unknown_op_warnings(*task_)) log_->warn("{}", warning);
  }

  /// Why there is no plan.
  Verdict explain(const partition::PlanSearchResult& found, partition::SharedSolver& solver) {
    const bool is_infeasible = found.status == engine::Status::kInfeasible;
    if (found.points.empty() && is_infeasible) return fail(kExitInfeasible, explain_contradiction(task_->problem));
    if (!is_infeasible && solver.is_out_of_time()) {
      return fail(kExitNoSolution, "the time limit came before a plan was found");
    }
    const Advice advice = find_advice(*task_, arguments_, found.points, solver);
    const bool is_proven = is_infeasible || advice.least.bound_bytes > task_->problem.pins.memory_limit_bytes;
    return fail(is_proven ? kExitInfeasible : kExitNoSolution, explain_memory(task_->problem, advice, is_proven));
  }

  Verdict write(const partition::PlanSearchResult& found, std::vector<io::MeshOutcome> meshes, double solve_s) {
    progress_->clear();
    const partition::Plan& plan = *found.plan;
    const io::PlanResult outcome{found.status, arguments_.random_plan ? 0 : found.bound, found.stats,
                                 std::move(meshes)};
    const io::RunInfo run{ranks_, arguments_.engine.num_threads(), task_->read_s, task_->build_s, solve_s};
    const std::string text = io::format_plan(found.problem, plan, outcome, task_->source,
                                             arguments_.reproducible ? std::nullopt : std::optional(run));
    if (const auto failed = write_output(text)) return *failed;
    if (!arguments_.quiet) {
      if (arguments_.random_plan) fmt::print("A random plan (seed {}), not a good one\n", *arguments_.random_plan);
      fmt::print("{}\n", summary(found.problem, plan, outcome, run));
      if (!outcome.meshes.empty()) fmt::print("Meshes\n{}\n", mesh_table(outcome.meshes));
      fmt::print("Plan written to {}\n", arguments_.output);
    }
    const bool is_done = arguments_.random_plan || found.status != engine::Status::kLimitReached;
    return {true, is_done ? kExitOptimal : kExitLimitReached};
  }

  std::optional<Verdict> write_output(const std::string& text) {
    try {
      io::write_file(arguments_.output, text);
      return std::nullopt;
    } catch (const io::InputError& error) {
      return fail(kExitBadInput, error.what());
    }
  }

  Verdict fail(int exit_code, std::string_view message) {
    if (progress_) progress_->clear();
    log_->error("{}", message);
    return {true, exit_code};
  }

  int ranks_;
  std::shared_ptr<spdlog::logger> log_;
  Arguments arguments_;
  std::optional<Task> task_;         // if the input is a model
  std::vector<costs::Mesh> meshes_;  // or a model and the mesh is to be chosen; then task_ is that of the best
  std::string text_;                 // of the model file, then
  std::optional<TableTask> tables_;  // if it is a cost table
  std::optional<ProgressLine> progress_;
};

int run_rank_0(int argc, char** argv, engine::Comm& comm) {
  Rank0 rank0(comm.size());
  const Verdict verdict = share(comm, rank0.prepare(argc, argv));
  if (verdict.leave) return verdict.exit_code;
  return share(comm, rank0.search(comm)).exit_code;
}

int run_other_rank(int argc, char** argv, engine::Comm& comm) {
  const Verdict verdict = share(comm, {});
  if (verdict.leave) return verdict.exit_code;
  if (verdict.is_table) {
    help_solve_tables(parse_command_line(argc, argv).arguments, comm);
  } else {
    partition::help_solve(comm);
  }
  return share(comm, {}).exit_code;
}

}  // namespace

int run(int argc, char** argv, engine::Comm& comm) {
  return comm.rank() == 0 ? run_rank_0(argc, argv, comm) : run_other_rank(argc, argv, comm);
}

}  // namespace autopar::launch
