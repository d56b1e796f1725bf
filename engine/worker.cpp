#include "engine/worker.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "engine/index.h"
#include "engine/messages.h"

namespace autopar::engine {
namespace {

constexpr int kTasksInFlight = 2;  // per worker: one running, one waiting

/// A block is split for several ranks above this many allowed pairs of values on its edges, into parts of about that.
constexpr std::size_t kTaskWeight = 20'000;
constexpr std::size_t kMostParts = 64;

std::size_t weight(const Block& block) {
  std::size_t total = 0;
  for (const Block::Edge& edge : block.edges) {
    total += block.variables[ix(edge.u)].num_allowed() * block.variables[ix(edge.v)].num_allowed();
  }
  return total;
}

/// Tasks of one block: first by blocks of boundary states, then by the inner variables' choices on the first mesh dims.
/// Depends on the block only, not on how many ranks there are.
std::vector<Block> tasks_of(const Block& block) {
  std::vector<Block> tasks{block};
  if (weight(block) <= kTaskWeight) return tasks;
  std::vector<std::size_t> order(block.variables.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const Block::Variable& one = block.variables[a];
    const Block::Variable& two = block.variables[b];
    return std::pair(two.keep, two.num_allowed()) < std::pair(one.keep, one.num_allowed());
  });
  for (std::size_t variable : order) {
    std::vector<Block> finer;
    for (const Block& task : tasks) {
      std::vector<Block> parts = split(task, static_cast<std::int32_t>(variable));
      finer.insert(finer.end(), std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
    }
    if (finer.size() > kMostParts) break;
    tasks = std::move(finer);
    if (std::all_of(tasks.begin(), tasks.end(), [](const Block& task) { return weight(task) <= kTaskWeight; })) break;
  }
  return tasks;
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
      : options_(options), deadline_(deadline), comm_(comm) {
    for (const Block& block : blocks) {
      std::vector<Block> tasks = tasks_of(block);
      num_tasks_.push_back(tasks.size());
      tasks_.insert(tasks_.end(), std::make_move_iterator(tasks.begin()), std::make_move_iterator(tasks.end()));
    }
    results_.resize(tasks_.size());
    for (BlockResult& result : results_) result.outcome = BlockResult::Outcome::kStopped;
    std::vector<std::size_t> weights;
    for (const Block& task : tasks_) weights.push_back(weight(task));
    std::vector<std::size_t> order(tasks_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
    queue_.assign(order.begin(), order.end());
  }

  std::vector<BlockResult> run(const Report& progress) {
    for (int round = 0; round < kTasksInFlight; ++round) {
      for (int rank = 1; rank < comm_.size(); ++rank) hand_out(rank);
    }
    while (!queue_.empty() || in_flight_ > 0) {
      while (auto message = comm_.try_receive()) take(*message);
      if (!queue_.empty()) {
        const std::size_t mine = queue_.back();
        queue_.pop_back();
        store(mine, search(tasks_[mine], options_, deadline_));
      } else if (in_flight_ > 0) {
        take(comm_.receive());
      }
      if (progress) progress(done_, tasks_.size());
    }
    return by_block();
  }

 private:
  std::vector<BlockResult> by_block() {
    std::vector<BlockResult> merged;
    auto next = results_.begin();
    for (std::size_t count : num_tasks_) {
      const auto last = next + static_cast<std::ptrdiff_t>(count);
      merged.push_back(count == 1 ? std::move(*next)
                                  : merge({std::make_move_iterator(next), std::make_move_iterator(last)}, options_));
      next = last;
    }
    return merged;
  }

  void hand_out(int rank) {
    if (queue_.empty()) return;
    const std::size_t next = queue_.front();
    queue_.pop_front();
    TaskMessage task;
    task.id = static_cast<std::int32_t>(next);
    task.seconds_left = seconds_left(deadline_);
    task.options = options_;
    task.block = tasks_[next];
    comm_.send(rank, pack(task));
    ++in_flight_;
  }

  void take(const Comm::Message& message) {
    ResultMessage result = unpack_result(message.bytes);
    --in_flight_;
    store(ix(result.id), std::move(result.result));
    hand_out(message.from);
  }

  void store(std::size_t task, BlockResult result) {
    // After a task that grew too large the others still run: which one is reported must not depend on who was first.
    if (result.outcome == BlockResult::Outcome::kStopped) queue_.clear();
    results_[task] = std::move(result);
    ++done_;
  }

  std::vector<Block> tasks_;
  std::vector<std::size_t> num_tasks_;  // per block
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
                                             const Deadline& deadline, Comm& comm, const Report& progress) {
  return Dispatcher(blocks, options, deadline, comm).run(progress);
}

Status work(Comm& comm) {
  while (true) {
    const Comm::Message message = comm.receive();
    const TaskMessage task = unpack_task(message.bytes);
    if (task.last) return task.status;
    Deadline deadline;
    if (task.seconds_left > 0) {
      deadline = Deadline::after(std::chrono::steady_clock::now(), task.seconds_left);
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
