#pragma once

#include <tbb/task_group.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/block.h"
#include "engine/neighbourhood_search.h"
#include "engine/stage.h"

namespace autopar::engine {

/// What the threads of one rank share: where the search is, and the best assignment known.
class Board {
 public:
  struct State {
    std::shared_ptr<const Stage> stage;
    std::shared_ptr<const Guide> guide;      // of that stage
    std::shared_ptr<const Assignment> best;  // of the first network; null: none yet
    Cost cost = kForbidden;
    std::int64_t version = 0;  // grows with every change
  };

  explicit Board(const CostNetwork& network) : network_(network) {}

  State state() const;
  std::int64_t version() const { return version_.load(std::memory_order_acquire); }
  void set_stage(std::shared_ptr<const Stage> stage);
  void set_guide(std::shared_ptr<const Guide> guide);
  /// Takes the assignment if it is allowed and better than the best. Ties stay with the earlier one.
  bool offer(const Assignment& assignment);

  void stop() { stopped_.store(true); }
  bool is_stopped() const { return stopped_.load(); }

 private:
  const CostNetwork& network_;
  mutable std::mutex mutex_;
  State state_;
  std::atomic<std::int64_t> version_{0};
  std::atomic<bool> stopped_{false};
};

/// One thread's search for better assignments. Follows the board.
class Improver {
 public:
  Improver(Board& board, std::uint32_t seed, const Deadline& deadline)
      : board_(board), seed_(seed), deadline_(deadline) {}

  /// Tries one neighbourhood. Returns false if there is no guide yet.
  bool step();
  std::size_t work() const { return work_; }

 private:
  void follow();
  void start(bool from_best);
  void start_elsewhere();
  std::vector<std::int32_t> start_values() const;

  Board& board_;
  std::uint32_t seed_;
  Deadline deadline_;
  Board::State state_;
  std::shared_ptr<const Stage> stage_;  // that search_ is on
  std::unique_ptr<NeighbourhoodSearch> search_;
  int num_starts_ = 0;
  int num_steps_ = 0;  // since the last start
  int idle_ = 0;       // of these, since the last one that brought something
  std::size_t work_ = 0;
};

/// `count` threads that improve until the board is stopped.
class ImproverThreads {
 public:
  ImproverThreads(Board& board, int count, std::uint32_t first_seed, const Deadline& deadline);
  ~ImproverThreads();
  ImproverThreads(const ImproverThreads&) = delete;
  ImproverThreads& operator=(const ImproverThreads&) = delete;

 private:
  Board& board_;
  tbb::task_group group_;
};

}  // namespace autopar::engine
