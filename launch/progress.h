#pragma once

#include <chrono>

#include "engine/solve.h"

namespace autopar::launch {

/// One line on stderr that is rewritten while the search runs; silent if stderr is not a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool shown() const { return shown_; }
  void show(const engine::Progress& progress);
  /// Takes the line away again, before something else is printed.
  void clear();

 private:
  bool shown_ = false;
  bool on_screen_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace autopar::launch
