#pragma once

#include <functional>
#include <vector>

#include "engine/block.h"
#include "engine/comm.h"
#include "engine/solve.h"

namespace autopar::engine {

/// Called after each task on rank 0: how many of how many are done.
using Report = std::function<void(std::size_t done, std::size_t total)>;

/// Searches `blocks` on all ranks and returns their results in the same order. Rank 0 only. Heavy blocks are split into
/// tasks by their boundary states and by choices on the first mesh dims. Large tasks go out first,
/// two at a time to each worker so that none waits for a round trip; rank 0 works from the small end and looks for
/// results in between. When the time is over, what was not searched is kStopped.
std::vector<BlockResult> search_on_all_ranks(const std::vector<Block>& blocks, const BlockOptions& options,
                                             const Deadline& deadline, Comm& comm, const Report& progress);

/// What the other ranks do until dismissed: receive blocks, search them, send the results back. Returns how the search
/// ended.
Status work(Comm& comm);

/// Ends work() on all other ranks. Rank 0 only.
void dismiss_workers(Status status, Comm& comm);

}  // namespace autopar::engine
