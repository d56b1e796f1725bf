#include "launch/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "engine/timing.h"
#include "launch/units.h"

namespace autopar::launch {
namespace {

constexpr std::chrono::milliseconds kBetweenRewritings(100);
constexpr std::chrono::seconds kBetweenLogLines(30);

}  // namespace

ProgressReport::ProgressReport(Detail detail, bool costs_are_times, std::shared_ptr<spdlog::logger> log)
    : form_(detail == Detail::kQuiet       ? Form::kNothing
            : detail == Detail::kVerbose   ? Form::kNews
            : ::isatty(STDERR_FILENO) == 1 ? Form::kLine
                                           : Form::kLog),
      costs_are_times_(costs_are_times),
      log_(std::move(log)),
      next_(form_ == Form::kLog ? Clock::now() + kBetweenLogLines : Clock::now()) {}

ProgressReport::~ProgressReport() { clear(); }

void ProgressReport::show(const engine::Progress& progress) {
  if (form_ == Form::kNothing || Clock::now() < next_) return;
  if (form_ == Form::kLine) next_ = Clock::now() + kBetweenRewritings;
  if (form_ == Form::kLog) next_ = Clock::now() + kBetweenLogLines;
  const std::string now = text(progress);
  const std::string line = fmt::format("{:.1f} s  {}", engine::process_seconds(), now);
  if (form_ == Form::kLine) {
    fmt::print(stderr, "\r\x1b[K{}", line);
    std::fflush(stderr);
    on_screen_ = true;
  } else if (form_ == Form::kLog || now != told_) {
    log_->info("{}", line);
    told_ = now;
  }
}

std::string ProgressReport::text(const engine::Progress& progress) const {
  std::string text = progress.stage;
  if (progress.tasks_total > 0) text += fmt::format(" {}/{}", progress.tasks_done, progress.tasks_total);
  if (progress.cost >= engine::kForbidden) return text;
  text +=
      costs_are_times_ ? fmt::format("  step {}", time_text(progress.cost)) : fmt::format("  cost {}", progress.cost);
  if (progress.bound <= 0) return text;
  text += costs_are_times_ ? fmt::format(", bound {}", time_text(progress.bound))
                           : fmt::format(", bound {}", progress.bound);
  const double gap = static_cast<double>(progress.cost - progress.bound) / static_cast<double>(progress.cost);
  return text + fmt::format(", gap {:.2g}%", 100 * gap);
}

void ProgressReport::clear() {
  if (!on_screen_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  on_screen_ = false;
}

}  // namespace autopar::launch
