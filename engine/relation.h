#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cost_network.h"

namespace autopar::engine {

/// Partial solutions: for tuples of values of some variables, the least cost of what has been eliminated behind them.
/// Only tuples that can be part of a solution within the gap are there. With usage points a tuple may stand in several
/// rows, none of which is better in cost and in usage than another (a Pareto frontier).
struct Relation {
  /// Where a variable's value sits in a key: as a code, its place among the values allowed.
  struct Field {
    std::int32_t variable = -1;
    std::int32_t shift = 0;
    std::int32_t bits = 0;
    std::shared_ptr<const std::vector<std::int32_t>> values = nullptr;  ///< of the codes, ascending; null: themselves

    std::int32_t code(std::uint64_t key) const {
      return static_cast<std::int32_t>((key >> shift) & ((std::uint64_t{1} << bits) - 1));
    }
    std::int32_t value(std::uint64_t key) const {
      return values ? (*values)[static_cast<std::size_t>(code(key))] : code(key);
    }
  };
  struct Row {
    std::uint64_t key = 0;
    Cost excess = 0;          ///< reparametrised cost, usage priced
    Cost price = 0;           ///< of the usage inside: excess - price is the cost itself
    std::uint32_t left = 0;   ///< row of `left` that this one was made from
    std::uint32_t right = 0;  ///< row of `right`, if that is there
  };

  std::vector<Field> scope;  ///< ascending by variable
  std::vector<Row> rows;
  std::vector<std::int64_t> usage;  ///< rows x points
  std::int32_t num_points = 0;
  Cost least_excess = 0;  ///< over the rows
  Cost most_price = 0;    ///< over the rows

  // Where the rows came from, to find the solution again.
  std::shared_ptr<const Relation> left;
  std::shared_ptr<const Relation> right;
  std::int32_t tag = -1;  ///< given relations: their number

  const std::int64_t* usage_of(std::size_t row) const {
    return usage.data() + row * static_cast<std::size_t>(num_points);
  }
  const Field* field(std::int32_t variable) const;
};

/// Lays out a key for `variables` (ascending) with these numbers of codes. Empty if 64 bits don't suffice.
std::vector<Relation::Field> make_scope(const std::vector<std::int32_t>& variables,
                                        const std::vector<std::int32_t>& num_codes);

/// Sorts rows by key and keeps, per key, the rows that no other row beats in cost and in usage; the first of equals.
void keep_best_rows(Relation& relation);

}  // namespace autopar::engine
