#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <memory>
#include <string>

#include "engine/solve.h"

namespace autopar::launch {

enum class Detail { kQuiet, kNormal, kVerbose };

/// Says on stderr how the search goes. On a terminal by one line that is rewritten, elsewhere by a log line now and
/// then; kVerbose: by a log line for whatever is new.
class ProgressReport {
 public:
  /// `costs_are_times`: in picoseconds.
  ProgressReport(Detail detail, bool costs_are_times, std::shared_ptr<spdlog::logger> log);
  ~ProgressReport();
  ProgressReport(const ProgressReport&) = delete;
  ProgressReport& operator=(const ProgressReport&) = delete;

  void show(const engine::Progress& progress);
  /// Takes the line away again, before something else is printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Form { kNothing, kLine, kLog, kNews };

  std::string text(const engine::Progress& progress) const;

  Form form_;
  bool costs_are_times_;
  std::shared_ptr<spdlog::logger> log_;
  bool on_screen_ = false;
  Clock::time_point next_;
  std::string told_;  // kNews: the last line, but for the time
};

}  // namespace autopar::launch
