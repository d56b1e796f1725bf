#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cost_network.h"

namespace autopar::engine {

/// The hot spot of a sweep: out[state of one end, v or u] = min over states of the other end of table - moved[state].
void min_minus(const Table& table, bool of_v, std::span<const Cost> moved, std::span<Cost> out);

/// A table with costs in 32 bits, rounded down. Sweeps read more tables than a core's own caches hold, so that half the
/// bytes, in twice the lanes, make them two to three times as fast.
class CoarseTable {
 public:
  /// For fewer entries it does not pay: those tables stay in the caches.
  static constexpr std::size_t kFewestEntries = 4096;

  explicit CoarseTable(const Table& table);

  /// Costs for which min_minus() has space between calls.
  struct Scratch {
    std::vector<std::int32_t> moved;
    std::vector<std::int32_t> out;
  };
  /// As above, but up to error() too low, never too high; a forbidden cost is some cost above all others. Returns false
  /// and leaves `out` alone if something moved is too much for 32 bits.
  bool min_minus(bool of_v, std::span<const Cost> moved, std::span<Cost> out, Scratch& scratch) const;
  Cost error() const { return Cost{2} << shift_; }

 private:
  std::size_t rows_;
  std::size_t cols_;
  int shift_ = 0;  // its unit of cost is 2^shift
  std::vector<std::int32_t> costs_;
};

}  // namespace autopar::engine
