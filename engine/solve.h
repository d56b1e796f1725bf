#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/cost_network.h"
#include "engine/presolve.h"

namespace autopar::engine {

class Comm;

struct Options {
  double gap = 0;                               ///< stop when (cost - bound) / cost is at most this
  double time_limit_s = 0;                      ///< 0: none
  int threads = 0;                              ///< TBB threads of this rank; 0: all cores
  std::size_t max_rows = std::size_t{1} << 20;  ///< of one relation in memory; above it the search branches
  /// So often; then it stops, as at a time limit, but at the same place on every machine. Negative: any number. 0: nor
  /// inside of blocks, and only a narrow margin above the bound is searched.
  std::int64_t max_branch_nodes = -1;
  /// Only assignments that cost less are looked for. If there are none, the result is kInfeasible.
  Cost cutoff = kForbidden;

  int num_threads() const;
};

enum class Status : std::uint8_t {
  kOptimal,       ///< proven, within the asked gap
  kLimitReached,  ///< a limit came: best so far, with its gap
  kInfeasible,    ///< proven: no assignment is allowed
  kNoSolution,    ///< a limit came before any was found
  kNotProven,     ///< of a search over several networks: it is at its end, with a gap
};

/// What the search is doing, for a progress line. Called on rank 0's communicating thread.
struct Progress {
  double seconds = 0;
  Cost cost = kForbidden;  ///< of the incumbent
  Cost bound = 0;
  std::string stage;  ///< "bound", "search", ...
  std::int64_t tasks_done = 0;
  std::int64_t tasks_total = 0;
  std::shared_ptr<const Assignment> assignment;  ///< of an anytime search: the incumbent
};

/// What a search knew from a moment on.
struct ProgressPoint {
  double seconds = 0;
  Cost cost = kForbidden;  ///< of the incumbent; kForbidden: there was none
  Cost bound = 0;
};

/// Counts and times, for the plan's "how it was found" and the scaling studies.
struct Stats {
  double presolve_s = 0;
  double bound_s = 0;
  double search_s = 0;
  PresolveCounts presolve;
  std::int64_t variables = 0;
  std::int64_t variables_after_presolve = 0;
  std::int64_t values_after_fixing = 0;
  std::int64_t sweeps = 0;
  std::int64_t segments = 0;
  std::int64_t segment_classes = 0;
  std::int64_t tasks = 0;
  std::int64_t branch_nodes = 0;

  /// Those of another search: times and counts add up, sizes are the largest.
  void add(const Stats& other);
};

struct Solution {
  Status status = Status::kNoSolution;
  Assignment assignment;  ///< empty if none was found
  Cost cost = kForbidden;
  Cost bound = 0;  ///< no assignment costs less
  Stats stats;
};

/// Minimises the network's cost over all ranks of `comm` (collective: every rank calls it; only rank 0's `network` is
/// read, the others receive pieces of the work). The result on rank 0 is complete and does not depend on the number of
/// ranks or threads unless a limit stopped the search; other ranks get the status only.
Solution solve(const CostNetwork& network, const Options& options, Comm& comm,
               const std::function<void(const Progress&)>& progress = {});

}  // namespace autopar::engine
