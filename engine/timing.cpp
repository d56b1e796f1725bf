#include "engine/timing.h"

#include <chrono>

namespace autopar::engine {
namespace {

using Clock = std::chrono::steady_clock;

const Clock::time_point kProcessStart = Clock::now();

}  // namespace

void Timing::add_own(const Timing& other) {
  for (std::size_t phase = 0; phase < seconds.size(); ++phase) seconds[phase] += other.seconds[phase];
  branch_nodes += other.branch_nodes;
}

double process_seconds() { return std::chrono::duration<double>(Clock::now() - kProcessStart).count(); }

}  // namespace autopar::engine
