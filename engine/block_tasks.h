#pragma once

#include <string>
#include <vector>

#include "engine/block.h"
#include "engine/pool.h"

namespace autopar::engine {

/// Searches `blocks` on all ranks and returns their results in the same order. Rank 0 only; the others are in serve()
/// with do_block_task(). Heavy blocks are split into tasks by their boundary states and by choices on the first mesh
/// dims. When the time is over, what was not searched is kStopped.
std::vector<BlockResult> search_on_all_ranks(const std::vector<Block>& blocks, const BlockOptions& options,
                                             const Deadline& deadline, Comm& comm, const Report& report);

/// The TaskFunction of other ranks.
std::string do_block_task(const std::string& task);

}  // namespace autopar::engine
