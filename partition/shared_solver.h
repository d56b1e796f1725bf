#pragma once

#include <chrono>
#include <functional>

#include "engine/comm.h"
#include "engine/cost_network.h"
#include "engine/solve.h"

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
  bool is_out_of_time() const { return options_.time_limit_s > 0 && seconds_left() <= 0; }
  /// Lets the other ranks go. The last call.
  void leave();

 private:
  double seconds_left() const;

  engine::Options options_;
  engine::Comm& comm_;
  std::function<void(const engine::Progress&)> progress_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// What the other ranks do meanwhile.
void help_solve(engine::Comm& comm);

}  // namespace autopar::partition
