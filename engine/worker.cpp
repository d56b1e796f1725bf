#include "engine/worker.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "engine/index.h"
#include "engine/messages.h"

namespace autopar::engine {
namespace {

constexpr int kTasksInFlight = 2;  // per worker: one running, one waiting

std::size_t weight(const Block& block) {
  std::size_t total = 0;
  for (const Block::Edge& edge : block.edges) total += edge.costs.size();
  return total;
}

double seconds_left(const Deadline& deadline) {
  if (deadline.at == std::chrono::steady_clock::time_point::max()) return 0;
  const std::chrono::duration<double> left = deadline.at - std::chrono::steady_clock::now();
  return std::max(left.count(), 1e-3);
}

/// Hands blocks to ranks and takes results back.
class Dispatcher {
 public:
  Dispatcher(const std::vector<Block>& blocks, const BlockOptions& options, const Deadline& deadline, Comm& comm)
      : blocks_(blocks), options_(options), deadline_(deadline), comm_(comm), results_(blocks.size()) {
    for (BlockResult& result : results_) result.outcome = BlockResult::Outcome::kStopped;
    std::vector<std::size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return weight(blocks[a]) > weight(blocks[b]); });
    queue_.assign(order.begin(), order.end());
  }

  std::vector<BlockResult> run(const std::function<void(std::size_t)>& progress) {
    for (int round = 0; round < kTasksInFlight; ++round) {
      for (int rank = 1; rank < comm_.size(); ++rank) hand_out(rank);
    }
    while (!queue_.empty() || in_flight_ > 0) {
      while (auto message = comm_.try_receive()) take(*message);
      if (!queue_.empty()) {
        const std::size_t mine = queue_.back();
        queue_.pop_back();
        store(mine, search(blocks_[mine], options_, deadline_));
      } else if (in_flight_ > 0) {
        take(comm_.receive());
      }
      if (progress) progress(done_);
    }
    return std::move(results_);
  }

 private:
  void hand_out(int rank) {
    if (queue_.empty()) return;
    const std::size_t next = queue_.front();
    queue_.pop_front();
    TaskMessage task;
    task.id = static_cast<std::int32_t>(next);
    task.seconds_left = seconds_left(deadline_);
    task.options = options_;
    task.block = blocks_[next];
    comm_.send(rank, pack(task));
    ++in_flight_;
  }

  void take(const Comm::Message& message) {
    ResultMessage result = unpack_result(message.bytes);
    --in_flight_;
    store(ix(result.id), std::move(result.result));
    hand_out(message.from);
  }

  void store(std::size_t block, BlockResult result) {
    if (result.outcome != BlockResult::Outcome::kDone) queue_.clear();
    results_[block] = std::move(result);
    ++done_;
  }

  const std::vector<Block>& blocks_;
  const BlockOptions& options_;
  const Deadline& deadline_;
  Comm& comm_;
  std::vector<BlockResult> results_;
  std::deque<std::size_t> queue_;  // largest first
  int in_flight_ = 0;
  std::size_t done_ = 0;
};

}  // namespace

std::vector<BlockResult> search_on_all_ranks(const std::vector<Block>& blocks, const BlockOptions& options,
                                             const Deadline& deadline, Comm& comm,
                                             const std::function<void(std::size_t done)>& progress) {
  return Dispatcher(blocks, options, deadline, comm).run(progress);
}

Status work(Comm& comm) {
  while (true) {
    const Comm::Message message = comm.receive();
    const TaskMessage task = unpack_task(message.bytes);
    if (task.last) return task.status;
    Deadline deadline;
    if (task.seconds_left > 0) {
      deadline.at = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                           std::chrono::duration<double>(task.seconds_left));
    }
    comm.send(message.from, pack(ResultMessage{task.id, search(task.block, task.options, deadline)}));
  }
}

void dismiss_workers(Status status, Comm& comm) {
  TaskMessage last;
  last.last = true;
  last.status = status;
  for (int rank = 1; rank < comm.size(); ++rank) comm.send(rank, pack(last));
}

}  // namespace autopar::engine
