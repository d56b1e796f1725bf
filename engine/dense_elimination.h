#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cost_network.h"

namespace autopar::engine {

/// Minimises a small pairwise problem exactly by bucket elimination (Dechter 1999) over dense tables. A variable whose
/// elimination would need a table of more than `max_table` entries keeps the value that it has, and so do as many
/// others as it takes: then the result is the best of what was tried, never worse than what was there.
///
/// Made for being run many times: structure first, then node costs as often as wanted.
class DenseElimination {
 public:
  static constexpr std::size_t kMostValues = 256;

  struct Pair {
    std::int32_t u = -1;
    std::int32_t v = -1;
    std::vector<Cost> costs;  ///< values of u x values of v
  };

  /// `sizes`: number of values of each variable, at most kMostValues; `current`: the value that one keeps if it cannot
  /// be freed.
  DenseElimination(std::vector<std::int32_t> sizes, std::vector<std::int32_t> current, std::vector<Pair> pairs,
                   std::size_t max_table);

  /// The best values for these costs of single values. Ties go to the first.
  std::vector<std::int32_t> solve(const std::vector<std::vector<Cost>>& costs);

  std::size_t num_kept() const { return num_kept_; }
  /// Table entries made by one solve().
  std::size_t work() const { return work_; }

 private:
  /// A table over the values of its scope, of which the first is eliminated first and the last lies contiguous.
  struct Factor {
    std::vector<std::int32_t> scope;  // positions in the elimination order, ascending
    std::vector<Cost> costs;          // of a pair
    std::size_t at = 0;               // of a message: where its costs begin in messages_
  };
  struct Bucket {
    std::vector<std::int32_t> scope;     // of the joint table, ascending: the variable, then the message's
    std::vector<std::int32_t> factors;   // indices into factors_: pairs, then messages of earlier buckets
    std::vector<std::int32_t> children;  // the buckets of these messages
    std::size_t size = 0;                // entries of the message
    std::int32_t message = -1;           // index into factors_; -1: a constant
    std::size_t choice_at = 0;           // where its part of choices_ begins
  };

  void choose_order(std::size_t max_table);
  void make_buckets();
  void add_pairs();
  void place_messages();
  const Cost* costs_of(const Factor& factor) const;
  void eliminate(const Bucket& bucket, const std::vector<Cost>& costs);
  void add_factor(const Bucket& bucket, const Factor& factor);
  std::int32_t size_at(std::int32_t position) const;

  std::vector<std::int32_t> sizes_;
  std::vector<std::int32_t> current_;
  std::vector<Pair> pairs_;
  std::vector<std::int32_t> order_;     // variables as they are eliminated
  std::vector<std::int32_t> position_;  // of each variable in the order; -1: kept
  std::size_t num_kept_ = 0;
  std::vector<Factor> factors_;
  std::vector<Bucket> buckets_;
  std::vector<std::int32_t> depth_first_;  // the buckets, each behind its children
  // Costs of the messages that still have to be read. Depth first these are a stack: far less than all of them, which
  // were most of a search's memory.
  std::vector<Cost> messages_;
  std::vector<std::uint8_t> choices_;  // for each entry of each message, the best value of the bucket's variable
  std::vector<Cost> joint_;            // scratch: values of the bucket's variable x message
  std::size_t work_ = 0;
};

}  // namespace autopar::engine
