#include "launch/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "launch/units.h"

namespace autopar::launch {

ProgressLine::ProgressLine(bool wanted, bool costs_are_times)
    : shown_(wanted && ::isatty(STDERR_FILENO) == 1), costs_are_times_(costs_are_times) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::show(const engine::Progress& progress) {
  constexpr std::chrono::milliseconds kBetween(100);
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || now - last_ < kBetween) return;
  last_ = now;
  std::string line = fmt::format("{:.1f} s  {}", progress.seconds, progress.stage);
  if (progress.tasks_total > 0) line += fmt::format(" {}/{}", progress.tasks_done, progress.tasks_total);
  if (progress.cost < engine::kForbidden) {
    line += costs_are_times_ ? fmt::format("  step {}, bound {}", time_text(progress.cost), time_text(progress.bound))
                             : fmt::format("  cost {}, bound {}", progress.cost, progress.bound);
  }
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
  on_screen_ = true;
}

void ProgressLine::clear() {
  if (!on_screen_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  on_screen_ = false;
}

}  // namespace autopar::launch
