#include "engine/piece_search.h"

#include <algorithm>
#include <utility>

#include "engine/index.h"
#include "engine/pieces.h"

namespace autopar::engine {
namespace {

constexpr std::size_t kMergeFactor = 64;  // a merge cannot branch as cheaply as a block: it may do more work before

/// Searches each block up to `wanted`, unless that was done before. Returns false if one has no result.
bool search_within(const Pieces& pieces, const std::vector<Cost>& wanted, const SearchBlocks& search_blocks,
                   std::vector<Pieces::Found>& found, PieceResult& result) {
  std::vector<std::size_t> which;
  std::vector<Block> blocks;
  for (std::size_t b = 0; b < found.size(); ++b) {
    if (wanted[b] <= found[b].searched) continue;
    which.push_back(b);
    blocks.push_back(pieces.block_within(b, wanted[b]));
  }
  const std::vector<BlockResult> results = search_blocks(blocks);
  for (std::size_t i = 0; i < which.size(); ++i) {
    if (results[i].outcome != BlockResult::Outcome::kDone) {
      result.outcome = results[i].outcome;
      result.widest = pieces.core_variable(which[i], results[i].widest);
      return false;
    }
    found[which[i]] = {wanted[which[i]], results[i].relation};
  }
  return true;
}

}  // namespace

PieceResult search_pieces(const CostNetwork& network, const Part& part, Cost target, bool may_stop_early,
                          const BlockOptions& options, const Deadline& deadline, const SearchBlocks& search_blocks) {
  const Cost gap = target - part.dual->bound();
  const Pieces pieces(network, part.live, *part.dual, gap);
  PieceResult result;
  result.target = target;
  result.num_pieces = static_cast<std::int64_t>(pieces.num_pieces());
  result.num_classes = static_cast<std::int64_t>(pieces.num_classes());
  // What the pieces add at least sums up, so all are searched within a share of the gap first: often the sum passes
  // it. Else it says how far each must be searched.
  std::vector<Pieces::Found> found(pieces.blocks().size());
  std::vector<Cost> least;
  Cost within = gap;
  for (Cost share = gap / 4 + 1;; share *= 2) {
    share = std::min(share, gap);
    std::vector<Cost> wanted(found.size(), -1);
    for (std::size_t b = 0; b < found.size(); ++b) {
      if (found[b].searched < 0 || found[b].relation->rows.empty()) wanted[b] = share;
    }
    if (!search_within(pieces, wanted, search_blocks, found, result)) return result;
    least = pieces.least_excess(found);
    Cost total = 0;
    for (Cost excess : least) total = add(total, excess);
    if (total > gap) return result;
    const auto is_empty = [](const Pieces::Found& block) { return block.relation->rows.empty(); };
    if (share < gap && std::ranges::any_of(found, is_empty)) continue;
    // No solution is below the sum, and the optimum is likely just above: look there before the rest of the gap.
    if (may_stop_early && total > gap / 8) within = std::min(gap, total + total / 16);
    break;
  }
  result.target -= gap - within;
  if (!search_within(pieces, pieces.needed(least, within), search_blocks, found, result)) return result;
  BlockOptions merging = options;
  merging.max_work *= kMergeFactor;
  Pieces::Merged merged = pieces.merge(found, within, merging, deadline);
  result.outcome = merged.outcome;
  result.widest = merged.widest;
  result.found = merged.found;
  result.values = std::move(merged.values);
  return result;
}

}  // namespace autopar::engine
