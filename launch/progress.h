#pragma once

#include <chrono>

#include "engine/solve.h"

namespace autopar::launch {

/// One line on stderr that is rewritten while the search runs; silent if stderr is not a terminal.
class ProgressLine {
 public:
  /// `costs_are_times`: in picoseconds.
  ProgressLine(bool wanted, bool costs_are_times);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool shown() const { return shown_; }
  void show(const engine::Progress& progress);
  /// Takes the line away again, before something else is printed.
  void clear();

 private:
  bool shown_ = false;
  bool costs_are_times_;
  bool on_screen_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace autopar::launch
