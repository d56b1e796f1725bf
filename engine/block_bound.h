#pragma once

#include <cstdint>
#include <vector>

#include "engine/block.h"

namespace autopar::engine {

/// The dual of one block, for the branch and bound inside it: the same moves of cost as Dual (TRW-S), on the block's
/// own tables. What is taken out of all variables raises the bound on everything that the block can contribute.
class BlockBound {
 public:
  explicit BlockBound(const Block& block);

  /// Sweeps until little more is gained or the bound passes the block's gap.
  void tighten();
  /// True if no solution is within the gap.
  bool exceeds_gap() const { return raised_ > block_.gap; }

  /// The block with its costs moved, values forbidden that no solution within the gap has, and the gap less the bound.
  Block tightened() const;
  /// What was moved out of the block's costs, for the one allowed value of each kept variable of `block`, a part of it.
  Cost inner_cost(const Block& part) const;
  /// Undoes the moves in a relation of the tightened block: its rows' costs become those of the block itself.
  void restore(Relation& relation) const;

 private:
  void visit(std::int32_t variable, bool forwards);
  void take_minimum(std::int32_t variable);
  void push(std::int32_t variable, std::int32_t edge, Cost parts);
  void pull(std::int32_t edge, std::int32_t into);

  Block block_;  // its costs change
  std::vector<std::vector<std::int32_t>> edges_of_;
  std::vector<std::vector<Cost>> moved_;  // kept variables: what came to each value from edges
  Cost raised_ = 0;
  Cost inner_taken_ = 0;
};

}  // namespace autopar::engine
