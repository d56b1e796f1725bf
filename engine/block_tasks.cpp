#include "engine/block_tasks.h"

#include <algorithm>
#include <numeric>

#include "engine/index.h"
#include "engine/messages.h"

namespace autopar::engine {
namespace {

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

class BlockRound : public TaskRound {
 public:
  BlockRound(const std::vector<Block>& blocks, const BlockOptions& options, const Deadline& deadline)
      : options_(options), deadline_(deadline) {
    for (const Block& block : blocks) {
      std::vector<Block> tasks = tasks_of(block);
      num_tasks_.push_back(tasks.size());
      tasks_.insert(tasks_.end(), std::make_move_iterator(tasks.begin()), std::make_move_iterator(tasks.end()));
    }
    results_.resize(tasks_.size());
    for (BlockResult& result : results_) result.outcome = BlockResult::Outcome::kStopped;
    std::vector<std::size_t> weights;
    for (const Block& task : tasks_) weights.push_back(weight(task));
    order_.resize(tasks_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::stable_sort(order_, [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  }

  std::size_t size() const override { return tasks_.size(); }

  std::string name(std::size_t task) const override { return "block " + std::to_string(order_[task]); }

  std::string pack(std::size_t task) const override {
    return engine::pack(BlockTask{deadline_.seconds_left(), options_, tasks_[order_[task]]});
  }

  void run(std::size_t task) override { results_[order_[task]] = search(tasks_[order_[task]], options_, deadline_); }

  void take(std::size_t task, const std::string& result) override {
    results_[order_[task]] = unpack_block_result(result);
  }

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

 private:
  const BlockOptions& options_;
  const Deadline& deadline_;
  std::vector<Block> tasks_;
  std::vector<std::size_t> num_tasks_;  // per block
  std::vector<std::size_t> order_;      // largest first
  std::vector<BlockResult> results_;
};

}  // namespace

std::vector<BlockResult> search_on_all_ranks(const std::vector<Block>& blocks, const BlockOptions& options,
                                             const Deadline& deadline, Comm& comm, const Report& report) {
  BlockRound round(blocks, options, deadline);
  run_on_all_ranks(round, deadline, comm, report);
  return round.by_block();
}

std::string do_block_task(const std::string& task) {
  const BlockTask unpacked = unpack_block_task(task);
  Deadline deadline;
  if (unpacked.seconds_left > 0) {
    deadline = Deadline::after(std::chrono::steady_clock::now(), unpacked.seconds_left);
  }
  return pack(search(unpacked.block, unpacked.options, deadline));
}

}  // namespace autopar::engine
