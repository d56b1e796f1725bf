#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/block.h"
#include "engine/part.h"

namespace autopar::engine {

/// Searches blocks and returns their results in the same order.
using SearchBlocks = std::function<std::vector<BlockResult>(const std::vector<Block>&)>;

struct PieceResult {
  BlockResult::Outcome outcome = BlockResult::Outcome::kDone;
  std::int32_t widest = -1;  ///< kTooLarge: the variable to split; -1: none in particular
  bool found = false;
  std::vector<std::int32_t> values;  ///< of the best solution; positions in the part's live values
  Cost target = 0;                   ///< what was searched: all solutions of at most this
  std::int64_t num_pieces = 0;
  std::int64_t num_classes = 0;
};

/// Finds the best solution of at most `target` in a part, by elimination of its Pieces and a merge of what they leave.
/// With `may_stop_early`, searches only up to a lower target if it is wise to look there first.
PieceResult search_pieces(const CostNetwork& network, const Part& part, Cost target, bool may_stop_early,
                          const BlockOptions& options, const Deadline& deadline, const SearchBlocks& search_blocks);

}  // namespace autopar::engine
