#include "launch/program.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "costs/rules/rule.h"
#include "engine/messages.h"
#include "engine/stop.h"
#include "engine/timing.h"
#include "io/file.h"
#include "io/input_error.h"
#include "io/write_plan.h"
#include "launch/advice.h"
#include "launch/checkpoint.h"
#include "launch/cli.h"
#include "launch/exit_codes.h"
#include "launch/export_problem.h"
#include "launch/frontier.h"
#include "launch/infeasible.h"
#include "launch/mesh_jobs.h"
#include "launch/mesh_search.h"
#include "launch/progress.h"
#include "launch/random_plan.h"
#include "launch/signals.h"
#include "launch/solve_tables.h"
#include "launch/stopwatch.h"
#include "launch/summary.h"
#include "launch/task.h"
#include "launch/times.h"
#include "launch/units.h"
#include "partition/plan_search.h"

namespace autopar::launch {
namespace {

constexpr std::int64_t kFewDevices = 8;    // of which nobody expects more meshes than one
constexpr const char* kSolves = "solves";  // of one mesh, in the checkpoint

/// As users ask for it: https://no-color.org.
spdlog::color_mode color_mode() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color != nullptr && *no_color != '\0' ? spdlog::color_mode::never : spdlog::color_mode::automatic;
}

/// What rank 0 tells the others: go on, or leave with this exit code.
struct Verdict {
  bool leave = false;
  int exit_code = 0;
  enum class Work : std::uint8_t { kNone, kModel, kMeshes, kTable } work = Work::kNone;  ///< what is to be searched
};

/// The part of the program that only rank 0 runs, before and after the search.
class Rank0 {
 public:
  explicit Rank0(int ranks) : ranks_(ranks), log_(spdlog::stderr_color_mt("autopar-search", color_mode())) {
    log_->set_pattern("%n: %^%l%$: %v");
  }

  Verdict prepare(int argc, char** argv, engine::Comm& comm) {
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
      if (!arguments_.log_dir.empty()) open_log(arguments_.log_dir, comm);
      read(io::read_file(arguments_.model));
      if (arguments_.export_problem.empty()) {
        open_checkpoint();
      } else {
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
    const Detail detail = arguments_.quiet ? Detail::kQuiet : arguments_.verbose ? Detail::kVerbose : Detail::kNormal;
    progress_.emplace(detail, !tables_, log_);
    return {false, 0, tables_ ? Verdict::Work::kTable : task_ ? Verdict::Work::kModel : Verdict::Work::kMeshes};
  }

  /// What the other ranks have to know of the files.
  const TaskFiles& files() const { return files_; }

  Verdict search(engine::Comm& comm) {
    const Verdict verdict = tables_ ? search_tables(comm) : task_ ? search_model(comm) : search_model_on_meshes(comm);
    const bool is_over = verdict.exit_code != kExitStopped && verdict.exit_code != kExitLimitReached &&
                         verdict.exit_code != kExitNoSolution;
    checkpoint_->close(is_over);
    return verdict;
  }

  /// After the search: `ranks` did this with their time.
  Verdict report(const Verdict& verdict, const std::vector<engine::Timing>& ranks) {
    try {
      if (!arguments_.log_dir.empty()) write_times(arguments_.log_dir, ranks);
    } catch (const io::InputError& error) {
      return fail(kExitBadInput, error.what());
    }
    const bool has_result = verdict.exit_code == kExitOptimal || verdict.exit_code == kExitLimitReached;
    if (!arguments_.quiet && has_result && ranks.size() > 1)
      fmt::print(tables_ ? stderr : stdout, "\n{}", times_table(ranks));
    return verdict;
  }

 private:
  /// A model or a cost table: its content tells.
  void read(std::string text) {
    const bool is_table = io::is_problem(text);
    if (!arguments_.export_problem.empty()) {
      arguments_.output = arguments_.export_problem;
    } else if (arguments_.output.empty()) {
      arguments_.output = default_output(arguments_.model, is_table ? "solution" : "plan");
    }
    if (is_table) {
      tables_.emplace(read_table_task(arguments_, text));
      return;
    }
    files_ = read_task_files(arguments_, std::move(text));
    if (arguments_.devices > 0) {
      meshes_ = meshes_to_choose_from(arguments_, files_);
      const bool has_no_choice = meshes_.size() == 1 && arguments_.max_mesh_dims > 1;
      if (has_no_choice && arguments_.devices > kFewDevices) {
        log_->warn(
            "{} devices have no mesh of more than one dim that fits the cluster: every tensor is split into so "
            "many pieces or not at all; a number with small factors gives more choice",
            arguments_.devices);
      }
    } else {
      task_.emplace(read_task(arguments_, files_));
      if (arguments_.export_problem.empty()) build_task(*task_);
    }
    check_output(arguments_);
  }

  void open_checkpoint() {
    Checkpoint::Identity identity{{"program", "autopar-search " AUTOPAR_VERSION},
                                  {"input", tables_ ? tables_->source.problem_hash : io::content_hash(files_.model)}};
    if (!tables_) {
      identity["cluster"] = io::content_hash(files_.cluster);
      identity["constraints"] = arguments_.constraints.empty() ? "" : io::content_hash(files_.constraints);
      identity["mesh"] =
          task_ ? mesh_text(task_->problem.mesh)
                : fmt::format("of {} devices in up to {} dims", arguments_.devices, arguments_.max_mesh_dims);
      identity["overlap"] = arguments_.has_overlap ? "model" : "none";
      identity["random plan"] = arguments_.random_plan ? std::to_string(*arguments_.random_plan) : "";
      identity["frontier"] = arguments_.has_frontier ? "memory" : "";
      identity["gap"] = fmt::format("{}", arguments_.engine.gap);
    }
    const std::string path = arguments_.output + ".checkpoint";
    checkpoint_.emplace(path, std::move(identity), arguments_.checkpoint_interval_s,
                        [log = log_](const std::string& message) { log->warn("{}", message); });
    if (!arguments_.resume) return;
    if (checkpoint_->load()) {
      log_->info("going on from {}", path);
    } else {
      log_->info("there is no {}; starting from the beginning", path);
    }
  }

  Verdict search_tables(engine::Comm& comm) {
    const TableResult result = solve_tables(*tables_, arguments_, comm, *progress_, *checkpoint_);
    progress_->clear();
    const engine::Solution& solution = result.solution;
    if (solution.status == engine::Status::kInfeasible) {
      return fail(kExitInfeasible, fmt::format("{}: no solution is allowed", arguments_.model));
    }
    if (solution.assignment.empty() && tables_->problem.network.num_variables() > 0) {
      return stopped_without("solution");
    }
    const io::RunInfo run{ranks_, arguments_.engine.num_threads(), tables_->read_s, 0, result.solve_s};
    const std::string text = io::format_solution(solution, tables_->source, result.timeline,
                                                 arguments_.reproducible ? std::nullopt : std::optional(run));
    if (const auto failed = write_output(arguments_.output, text)) return *failed;
    fmt::print("{}\n", io::choices_text(solution.assignment));
    if (!arguments_.quiet) {
      fmt::print("{}\nSolution written to {}\n", table_summary(*tables_, result, run), arguments_.output);
    }
    return solution.status == engine::Status::kLimitReached ? stopped() : Verdict{true, kExitOptimal};
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
    engine::SolveRecord record;
    if (const auto known = checkpoint_->find(kSolves)) record = engine::unpack_record(*known);
    solver.resume(std::move(record),
                  [&](const engine::SolveRecord& grown) { checkpoint_->put(kSolves, engine::pack(grown)); });
    partition::PlanSearchResult found = partition::search_plan(input, options, solver);
    engine::Timing& timing = comm.timing();
    timing.add(engine::Phase::kRead, task_->read_s);
    timing.add(engine::Phase::kPrice, task_->build_s);
    Verdict verdict;
    if (!found.plan) {
      verdict = explain(found, solver);
    } else if (arguments_.has_frontier) {
      verdict = write(search_frontier(*task_, options, solver, std::move(found)), watch);
    } else {
      verdict = write(found, {}, watch.seconds());
    }
    solver.leave();
    return verdict;
  }

  Verdict search_model_on_meshes(engine::Comm& comm) {
    const Stopwatch watch;
    const auto show = [&](const engine::Progress& progress) { progress_->show(progress); };
    partition::SharedSolver solver(arguments_.engine, comm, show);
    std::variant<MeshSearch, MeshFailure> result =
        search_meshes(meshes_, arguments_, files_, solver, *checkpoint_, show);
    Verdict verdict;
    if (const auto* failure = std::get_if<MeshFailure>(&result)) {
      verdict = fail(failure->exit_code, failure->text);
    } else {
      auto& searched = std::get<MeshSearch>(result);
      task_.emplace(std::move(searched.best.task));
      warn_of_unknown_ops();
      const partition::PlanSearchResult& found = searched.best.found;
      if (found.plan) {
        verdict = write(found, searched.meshes, watch.seconds());
      } else {
        log_->error("none of {} meshes of {} devices has a plan; of {}:", meshes_.size(), arguments_.devices,
                    mesh_text(task_->problem.mesh));
        verdict = explain(found, solver);
      }
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
      return stopped_without("plan");
    }
    const NoPlan why = explain_lack_of_memory(*task_, arguments_, files_, found, solver);
    return fail(why.exit_code, why.text);
  }

  Verdict write(const partition::PlanSearchResult& found, std::vector<io::MeshOutcome> meshes, double solve_s) {
    progress_->clear();
    const io::PlanResult outcome{found.status, arguments_.random_plan ? 0 : found.bound, found.stats,
                                 std::move(meshes)};
    io::RunInfo run = run_info(found, solve_s);
    // On several meshes at once there is no one time and no one bound.
    if (!outcome.meshes.empty()) run.progress.clear();
    if (const auto failed = write_output(arguments_.output, plan_text(found, outcome, run))) return *failed;
    if (!arguments_.quiet) {
      if (arguments_.random_plan) fmt::print("A random plan (seed {}), not a good one\n", *arguments_.random_plan);
      fmt::print("{}\n", summary(found.problem, *found.plan, outcome, run));
      if (!outcome.meshes.empty()) fmt::print("Meshes\n{}\n", mesh_table(outcome.meshes));
      fmt::print("Plan written to {}\n", arguments_.output);
    }
    const bool is_done = arguments_.random_plan || found.status != engine::Status::kLimitReached;
    return is_done ? Verdict{true, kExitOptimal} : stopped();
  }

  io::RunInfo run_info(const partition::PlanSearchResult& found, double solve_s) const {
    return {ranks_, arguments_.engine.num_threads(), task_->read_s, task_->build_s, solve_s, found.progress};
  }

  std::string plan_text(const partition::PlanSearchResult& found, const io::PlanResult& outcome,
                        const io::RunInfo& run) const {
    return io::format_plan(found.problem, *found.plan, outcome, task_->source,
                           arguments_.reproducible ? std::nullopt : std::optional(run));
  }

  Verdict write(const Frontier& frontier, const Stopwatch& watch) {
    const double solve_s = watch.seconds();
    for (std::size_t i = 1; i < frontier.points.size(); ++i) {
      const partition::PlanSearchResult& found = frontier.points[i].found;
      const io::PlanResult outcome{found.status, found.bound, found.stats};
      const std::string text = plan_text(found, outcome, run_info(found, solve_s));
      if (const auto failed = write_output(frontier_plan_path(arguments_.output, i), text)) return *failed;
    }
    const std::string list = format_frontier(frontier, arguments_.output);
    if (const auto failed = write_output(frontier_path(arguments_.output), list)) return *failed;
    const Verdict verdict = write(frontier.points.front().found, {}, solve_s);
    if (!arguments_.quiet && verdict.exit_code != kExitBadInput)
      fmt::print("\nMemory against time\n{}\n", frontier_table(frontier, arguments_.output));
    const bool is_cut_short = frontier.last_status == engine::Status::kLimitReached;
    return verdict.exit_code == kExitOptimal && is_cut_short ? stopped() : verdict;
  }

  /// The best so far is written.
  Verdict stopped() {
    const int signal = engine::stop_signal();
    if (signal == 0) return {true, kExitLimitReached};
    log_->warn("stopped by {}; what is written is the best so far, and --resume goes on", signal_name(signal));
    return {true, kExitStopped};
  }

  Verdict stopped_without(std::string_view what) {
    const int signal = engine::stop_signal();
    if (signal == 0) return fail(kExitNoSolution, fmt::format("the time limit came before a {} was found", what));
    return fail(kExitStopped,
                fmt::format("{} came before a {} was found; --resume goes on", signal_name(signal), what));
  }

  std::optional<Verdict> write_output(const std::string& path, const std::string& text) {
    try {
      io::write_file(path, text);
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
  TaskFiles files_;                  // of a model
  std::optional<TableTask> tables_;  // if it is a cost table
  std::optional<ProgressReport> progress_;
  std::optional<Checkpoint> checkpoint_;
};

int run_rank_0(int argc, char** argv, engine::Comm& comm) {
  Rank0 rank0(comm.size());
  const Verdict verdict = engine::share(comm, rank0.prepare(argc, argv, comm));
  if (verdict.leave) return verdict.exit_code;
  if (verdict.work == Verdict::Work::kMeshes) {
    std::string files = pack(rank0.files());
    comm.broadcast(files);
  }
  const Verdict found = rank0.search(comm);
  return engine::share(comm, rank0.report(found, gather_times(comm))).exit_code;
}

int run_other_rank(int argc, char** argv, engine::Comm& comm) {
  const Verdict verdict = engine::share(comm, Verdict{});
  if (verdict.leave) return verdict.exit_code;
  const Arguments arguments = parse_command_line(argc, argv).arguments;
  if (!arguments.log_dir.empty()) open_log(arguments.log_dir, comm);
  if (verdict.work == Verdict::Work::kTable) {
    help_solve_tables(arguments, comm);
  } else {
    TaskFiles files;
    if (verdict.work == Verdict::Work::kMeshes) {
      std::string bytes;
      comm.broadcast(bytes);
      files = unpack_task_files(bytes);
    }
    partition::help_solve(comm, [&](const std::string& job) {
      return pack(do_mesh_job(unpack_mesh_job(job), arguments, files, comm.timing()));
    });
  }
  gather_times(comm);
  return engine::share(comm, Verdict{}).exit_code;
}

}  // namespace

int run(int argc, char** argv, engine::Comm& comm) {
  handle_signals(comm.rank() == 0);
  return comm.rank() == 0 ? run_rank_0(argc, argv, comm) : run_other_rank(argc, argv, comm);
}

}  // namespace autopar::launch
