#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "engine/block.h"
#include "engine/core.h"
#include "engine/cost_network.h"

namespace autopar::engine {

/// What a dual tells a search for assignments.
struct Guide {
  std::vector<double> prices;                    ///< of usage, per point
  std::vector<std::vector<Cost>> reduced_costs;  ///< per variable and value
  Cost gap = 0;                                  ///< values with a larger reduced cost are of no use
  Cost bound = 0;
  std::vector<std::int32_t> rounding;  ///< values to start from
};

/// Large-neighbourhood search: again and again a block of variables is freed, the others keep their values, and the
/// block's best values are found by elimination. Usage is priced in the block, a little more or less until the whole
/// assignment just fits. One object per thread.
class NeighbourhoodSearch {
 public:
  NeighbourhoodSearch(const Core& core, std::uint32_t seed);

  void set_guide(std::shared_ptr<const Guide> guide) { guide_ = std::move(guide); }
  /// Goes on from here, within the limit or not.
  void start(const std::vector<std::int32_t>& values);
  /// Tries one block. At the deadline it stops halfway, with the best so far.
  void step(const Deadline& deadline);
  /// Moves a small block to values that are good for costs changed at random, if these fit, also if they are worse.
  void kick();

  const std::vector<std::int32_t>& values() const { return values_; }
  Cost cost() const { return cost_; }
  /// Usage above the limit, summed over the points. 0: the values are a solution.
  std::int64_t excess() const { return excess_; }
  /// Table entries made so far: a measure of time that does not depend on the machine.
  std::size_t work() const { return work_; }

 private:
  /// A way of choosing blocks, with what it brought lately.
  struct Way {
    std::size_t size = 0;
    bool by_time = false;
    double rate = 0;  // savings per work
  };
  struct Block;

  std::size_t choose_way();
  std::vector<std::int32_t> grow(const Way& way);
  Block make_block(const std::vector<std::int32_t>& variables, double share, std::size_t max_table);
  void add_neighbours(std::int32_t variable, std::vector<std::int32_t>& frontier);
  std::vector<std::int32_t> candidates(std::int32_t variable, double share) const;
  static std::vector<std::int32_t> current_of(const Block& block, const std::vector<std::int32_t>& values);
  std::vector<std::vector<Cost>> priced(const Block& block, const std::vector<double>& prices) const;
  void try_block(Block& block, const Deadline& deadline);
  void change_usage(const Block& block, const std::vector<std::int32_t>& to);
  std::int64_t excess_now() const;
  double typical_price() const;
  void raise(std::vector<double>& prices, double amount) const;
  Cost whole_cost() const;
  Cost cost_of_block(const Block& block) const;
  void set_values(const Block& block, const std::vector<std::int32_t>& to);
  double uniform() { return static_cast<double>(random_() >> 8) / static_cast<double>(1U << 24); }

  const Core& core_;
  std::mt19937 random_;
  std::shared_ptr<const Guide> guide_;
  std::vector<std::int32_t> values_;
  Cost cost_ = kForbidden;
  std::vector<std::int64_t> usage_;
  std::int64_t excess_ = 0;
  std::vector<double> bumps_;  // prices on top, where the limit was passed
  std::vector<Way> ways_;
  std::size_t work_ = 0;
  std::vector<char> in_block_;
  std::vector<std::int32_t> users_;  // variables with usage
};

}  // namespace autopar::engine
