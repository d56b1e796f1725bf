#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/block.h"
#include "engine/core.h"
#include "engine/dual.h"

namespace autopar::engine {

/// How a core falls apart. Open variables with an open neighbour in another segment are separators; a piece is a
/// connected set of the other open variables of one segment, with the separators around it. Pieces meet in separators
/// only, so each can be eliminated alone, and merging joins their relations with the edges between separators.
///
/// Pieces of the same structure (same costs before any cost was moved) form a class. Members of a class whose moved
/// costs differ little share one block: its relation holds every tuple that any of them needs, and member() turns it
/// into each member's own. Members stay free to choose differently.
class Pieces {
 public:
  /// `gap`: solutions whose cost is above dual.bound() + gap are not needed. `network` and `live` as the core was made.
  Pieces(const CostNetwork& network, const LiveValues& live, const Dual& dual, Cost gap);

  /// One block per group of alike pieces.
  const std::vector<Block>& blocks() const { return blocks_; }
  std::size_t num_pieces() const { return pieces_.size(); }
  std::size_t num_classes() const { return num_classes_; }

  /// What is known of one block: the relation of all tuples within `searched` of the gap (-1: nothing yet).
  struct Found {
    Cost searched = -1;
    std::shared_ptr<const Relation> relation;
  };
  /// Block `block` up to `gap` (at most the pieces' gap) only.
  Block block_within(std::size_t block, Cost gap) const;
  /// The least that each piece adds to the bound.
  std::vector<Cost> least_excess(const std::vector<Found>& found) const;
  /// Up to where each block must be searched for solutions within `gap` if the other pieces add at least `least`.
  std::vector<Cost> needed(const std::vector<Cost>& least, Cost gap) const;

  /// Merges the blocks' relations (in the order of blocks()) over the separators and finds the cheapest solution within
  /// `gap`: its values per core variable in `values` (decided ones 0). Returns false if there is none.
  /// Outcome kTooLarge: `widest` is a core variable to split; -1 if none in particular.
  struct Merged {
    BlockResult::Outcome outcome = BlockResult::Outcome::kDone;
    std::int32_t widest = -1;
    bool found = false;
    std::vector<std::int32_t> values;
  };
  Merged merge(const std::vector<Found>& found, Cost gap, const BlockOptions& options, const Deadline& deadline) const;

  /// The core variable behind variable `variable` of block `block` (of its first member); -1 stays -1.
  std::int32_t core_variable(std::size_t block, std::int32_t variable) const {
    if (variable < 0) return -1;
    return pieces_[static_cast<std::size_t>(groups_[block].members[0])].variables[static_cast<std::size_t>(variable)];
  }

 private:
  struct Piece {
    std::vector<std::int32_t> variables;  // ascending
    std::vector<char> keep;               // per variable: a separator
    std::vector<std::int32_t> edges;      // with an inner end
  };
  /// Difference between a member's moved costs and the first member's: relation rows shift by this.
  struct Shift {
    Cost constant = 0;
    std::vector<std::vector<Cost>> by_value;  // per piece variable; empty for inner ones
  };
  struct Group {
    std::vector<std::int32_t> members;  // pieces
    std::vector<Shift> shifts;          // per member
  };

  void find_pieces();
  void group_pieces();
  std::vector<std::int64_t> signature(const Piece& piece) const;
  Shift shift_between(const Piece& first, const Piece& member) const;
  Cost spread(const Shift& shift) const;
  Block::Variable block_variable(const Piece& piece, std::size_t i) const;
  Block make_block(const Group& group) const;
  Block::Edge block_edge(std::int32_t edge, std::int32_t u, std::int32_t v) const;
  std::shared_ptr<const Relation> member_relation(const Relation& shared, const Piece& piece, const Shift& shift,
                                                  std::int32_t tag) const;
  bool fill_inner(const Piece& piece, const Relation& relation, std::size_t row, const BlockOptions& options,
                  const Deadline& deadline, std::vector<std::int32_t>& values) const;

  const CostNetwork& network_;
  const LiveValues& live_;
  const Dual& dual_;
  const Core& core_;
  Cost gap_;
  std::vector<Piece> pieces_;
  std::vector<Group> groups_;
  std::size_t num_classes_ = 0;
  Cost most_price_ = 0;  // Σ over variables of the dearest usage
  std::vector<Block> blocks_;
  std::vector<std::int32_t> separators_;       // ascending core variables
  std::vector<std::int32_t> separator_edges_;  // between two separators
};

}  // namespace autopar::engine
