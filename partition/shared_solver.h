#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "engine/block.h"
#include "engine/comm.h"
#include "engine/cost_network.h"
#include "engine/pool.h"
#include "engine/solve.h"
#include "engine/solve_record.h"

namespace autopar::partition {

/// `options` for one of many networks, of which none decides alone: it ends within `gap` and after so many branch
/// nodes, and keeps relations narrow.
engine::Options with_effort(engine::Options options, double gap, std::int64_t max_branch_nodes);

/// Solves networks one after another, each on all ranks, within one time limit. Rank 0 has it; the other ranks are in
/// help_solve() until it leaves.
class SharedSolver {
 public:
  /// The time of `options` starts now and is for all networks together.
  SharedSolver(const engine::Options& options, engine::Comm& comm,
               std::function<void(const engine::Progress&)> progress = {});

  const engine::Options& options() const { return options_; }
  /// With `options`, but for the time limit.
  engine::Solution solve(const engine::CostNetwork& network, engine::Options options);
  /// Also after a signal asked to stop.
  bool is_out_of_time() const;
  const engine::Deadline& deadline() const { return deadline_; }
  /// Since the start.
  double seconds() const;
  /// What the last network's solution knew when, in its own costs; nothing of answers that are known from before.
  const std::vector<engine::ProgressPoint>& trace() const { return trace_; }
  /// Of this rank.
  engine::Timing& timing() { return comm_.timing(); }
  /// Does independent tasks on all ranks, in which others run the TaskFunction that they gave to help_solve().
  void run(engine::TaskRound& round, const engine::Report& report);
  /// Lets the other ranks go. The last call.
  void leave();

  /// Goes on with a search that stopped early: what `record` has to the end is not solved again, and of what was cut
  /// short the better of both is taken. `changed` hears of each new entry.
  void resume(engine::SolveRecord record, std::function<void(const engine::SolveRecord&)> changed);
  /// Repeats a search: all answers, and when the time was over, are those of `record`; nothing is solved.
  void replay(engine::SolveRecord record);
  /// Of all that was solved since the start, or resume().
  engine::SolveRecord take_record();

 private:
  bool has_answer() const { return next_ < record_.entries.size(); }
  engine::Solution answer(const engine::CostNetwork& network);
  engine::Solution compute(const engine::CostNetwork& network, engine::Options options);

  engine::Options options_;
  engine::Comm& comm_;
  std::function<void(const engine::Progress&)> progress_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<engine::ProgressPoint> trace_;
  engine::Deadline deadline_;
  engine::SolveRecord record_;
  std::size_t next_ = 0;  // in the record; behind it, answers are not known yet
  bool replays_ = false;
  std::optional<engine::Solution> cut_short_;  // of an earlier run, what follows the record
  std::function<void(const engine::SolveRecord&)> changed_;
};

/// What the other ranks do meanwhile. `function`: their part of SharedSolver::run().
void help_solve(engine::Comm& comm, const engine::TaskFunction& function = {});

}  // namespace autopar::partition
