#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cost_network.h"
#include "engine/relation.h"
#include "engine/stop.h"

namespace autopar::engine {

/// A piece of the search, complete in itself: it travels between ranks. All costs are reparametrised, so every part is
/// >= 0 and a partial solution whose parts sum to more than the gap is cut.
struct Block {
  struct Variable {
    /// Per value; kForbidden: not allowed here. Of a kept variable they are not charged: they only help to cut.
    std::vector<Cost> costs;
    std::vector<Cost> prices;         ///< per value: price of its usage, part of `costs`; empty: 0
    std::vector<std::int64_t> usage;  ///< values x points; empty: none
    /// See Domain::levels.
    std::vector<std::vector<std::int32_t>> levels;
    bool keep = false;  ///< stays in the result's scope

    std::size_t num_allowed() const;
  };
  struct Edge {
    std::int32_t u = -1;
    std::int32_t v = -1;
    std::vector<Cost> costs;  ///< values of u x values of v
  };

  std::vector<Variable> variables;
  std::vector<Edge> edges;
  std::vector<std::int64_t> capacity;  ///< per usage point
  Cost gap = 0;
  /// The gap is on cost with usage priced and the whole capacity paid back. Capacity left idle is paid back for
  /// nothing, so a partial solution is also cut if too little usage can still come: what the whole capacity is worth,
  /// and the most that usage outside this block can be.
  Cost capacity_price = 0;
  Cost outside_price = 0;
};

/// Ends a search early when its time is over, or when a signal asked for it (stop.h). Threads only read it.
struct Deadline {
  std::chrono::steady_clock::time_point at = std::chrono::steady_clock::time_point::max();
  static Deadline after(std::chrono::steady_clock::time_point start, double seconds) {
    return {start +
            std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds))};
  }
  /// For another search that is to end then: 0: no limit, else more than that also when it has passed.
  double seconds_left() const;
  bool passed() const { return stop_signal() != 0 || std::chrono::steady_clock::now() >= at; }
};

struct BlockOptions {
  std::size_t max_rows = std::size_t{1} << 20;  ///< of one relation; above it the search branches
  std::size_t max_work = std::size_t{1} << 18;  ///< rows made on the way, with the same effect
  int max_depth = 200;                          ///< of branching, before it gives up
};

struct BlockResult {
  enum class Outcome : std::uint8_t { kDone, kTooLarge, kStopped };
  Outcome outcome = Outcome::kDone;
  /// Over the kept variables. With none kept: rows with an empty key, none if no solution lies within the gap.
  std::shared_ptr<const Relation> relation;
  std::int64_t branch_nodes = 0;
  /// kTooLarge: the variable whose values would have to be split; -1 if none in particular.
  std::int32_t widest = -1;
};

/// Bucket elimination (Dechter 1999) over the tuples within the gap, given relations joined in. Sequential. Relations
/// keep their origins, so values() can find the eliminated variables' values.
BlockResult eliminate(const Block& block, const std::vector<std::shared_ptr<const Relation>>& given,
                      const BlockOptions& options, const Deadline& deadline);

/// A relation over the kept variables without rows.
std::shared_ptr<const Relation> empty_relation(const Block& block);

/// Parts of `block` that split the allowed values of `variable` by the coarsest branching level that tells them apart
/// (the choice on mesh dim 0, then 1, ...), else one by one. Together they have the block's solutions.
std::vector<Block> split(const Block& block, std::int32_t variable);

/// The result of a block from those of its parts, in their order.
BlockResult merge(const std::vector<BlockResult>& parts, const BlockOptions& options);

/// Depth-first branch and bound on top of eliminate(): where a relation grows too large, splits the widest variable's
/// values by their branching levels and searches the parts, in parallel (TBB), each with a tightened bound
/// (BlockBound). Ends at the first gap, from first_gap on, within which there are rows. The result does not depend on
/// the number of threads. The rows have no origins.
BlockResult search(const Block& block, const BlockOptions& options, const Deadline& deadline);

/// Finds the values behind a row that search() gave: `block` allows one value of each kept variable, and `cost` (usage
/// not priced) and `usage` are the row's. Also values that cost or use less will do: prices are rounded value by value,
/// so that such a row may just have been beyond the gap where the given one was not, and beats it here. Depth first,
/// ends at the first solution. Empty if there is none or the deadline passed.
std::vector<std::int32_t> find_values(const Block& block, Cost cost, const std::vector<std::int64_t>& usage,
                                      const BlockOptions& options, const Deadline& deadline);

/// Values of the variables that were eliminated on the way to row `row` of `relation`, and the rows of given relations
/// that it used: values[variable], given_rows[tag]. Entries not on the way stay as they are.
void trace(const Relation& relation, std::size_t row, std::vector<std::int32_t>& values,
           std::vector<std::int32_t>& given_rows);

}  // namespace autopar::engine
