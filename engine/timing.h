#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autopar::engine {

/// What a rank does with its time.
enum class Phase : std::uint8_t { kRead, kPrice, kPresolve, kBound, kSearch, kWait };
inline constexpr std::array<std::string_view, 6> kPhaseNames = {"read", "price", "presolve", "bound", "search", "wait"};

/// A task that some rank did, as rank 0 saw it. Tasks of one round are independent of each other, and no round begins
/// before the one before it ended.
struct TaskTrace {
  std::string name;
  std::int32_t round = 0;
  std::int32_t rank = 0;
  double start_s = 0;     ///< since the process began: when rank 0 handed it out, or began it
  double seconds = 0;     ///< of work
  std::int64_t sent = 0;  ///< bytes to the rank and back; 0 for rank 0's own
  std::int64_t received = 0;
};

/// What one rank did.
struct Timing {
  std::array<double, kPhaseNames.size()> seconds = {};  ///< by Phase
  double total_s = 0;                                   ///< since the process began; set at its end
  std::int64_t tasks = 0;
  std::int64_t branch_nodes = 0;
  std::int64_t messages = 0;          ///< sent
  std::int64_t bytes = 0;             ///< of these
  std::int32_t rounds = 0;            ///< of tasks
  std::vector<TaskTrace> trace = {};  ///< on rank 0, if it has a log

  double in(Phase phase) const { return seconds[static_cast<std::size_t>(phase)]; }
  void add(Phase phase, double s) { seconds[static_cast<std::size_t>(phase)] += s; }
  /// What this rank did by means of a solver that knows no other ranks.
  void add_own(const Timing& other);
};

/// Seconds since the process began, about.
double process_seconds();

}  // namespace autopar::engine
