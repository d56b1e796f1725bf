#include "engine/min_minus.h"

#include <algorithm>
#include <bit>

#include "engine/index.h"
#include "engine/vectorise.h"

namespace autopar::engine {
namespace {

// A template cannot be compiled for several instruction sets, but be part of functions that are.

/// out[b] = min over a of table[a][b] - moved[a].
template <class Number>
[[gnu::always_inline]] inline void min_of_cols(const Number* table, const Number* moved, std::size_t rows,
                                               std::size_t cols, Number* out) {
  for (std::size_t b = 0; b < cols; ++b) out[b] = table[b] - moved[0];
  for (std::size_t a = 1; a < rows; ++a) {
    const Number* row = table + a * cols;
    const Number shift = moved[a];
    for (std::size_t b = 0; b < cols; ++b) {
      const Number here = row[b] - shift;
      out[b] = here < out[b] ? here : out[b];
    }
  }
}

/// out[a] = min over b of table[a][b] - moved[b].
template <class Number>
[[gnu::always_inline]] inline void min_of_rows(const Number* table, const Number* moved, std::size_t rows,
                                               std::size_t cols, Number* out) {
  for (std::size_t a = 0; a < rows; ++a) {
    const Number* row = table + a * cols;
    Number least = row[0] - moved[0];
    for (std::size_t b = 1; b < cols; ++b) {
      const Number here = row[b] - moved[b];
      least = here < least ? here : least;
    }
    out[a] = least;
  }
}

AUTOPAR_VECTORISED void exact_min_of_cols(const Cost* table, const Cost* moved, std::size_t rows, std::size_t cols,
                                          Cost* out) {
  min_of_cols(table, moved, rows, cols, out);
}
AUTOPAR_VECTORISED void exact_min_of_rows(const Cost* table, const Cost* moved, std::size_t rows, std::size_t cols,
                                          Cost* out) {
  min_of_rows(table, moved, rows, cols, out);
}
AUTOPAR_VECTORISED void coarse_min_of_cols(const std::int32_t* table, const std::int32_t* moved, std::size_t rows,
                                           std::size_t cols, std::int32_t* out) {
  min_of_cols(table, moved, rows, cols, out);
}
AUTOPAR_VECTORISED void coarse_min_of_rows(const std::int32_t* table, const std::int32_t* moved, std::size_t rows,
                                           std::size_t cols, std::int32_t* out) {
  min_of_rows(table, moved, rows, cols, out);
}

// A difference of a cost and something moved fits in 32 bits if neither is more than 2^30 units.
constexpr int kBitsOfCost = 29;
constexpr Cost kMostMoved = Cost{1} << 30;
constexpr std::int32_t kForbiddenUnits = (1 << 30) - 1;

}  // namespace

void min_minus(const Table& table, bool of_v, std::span<const Cost> moved, std::span<Cost> out) {
  (of_v ? exact_min_of_cols : exact_min_of_rows)(table.costs.data(), moved.data(), ix(table.rows), ix(table.cols),
                                                 out.data());
}

CoarseTable::CoarseTable(const Table& table) : rows_(ix(table.rows)), cols_(ix(table.cols)) {
  Cost most = 0;
  for (const Cost cost : table.costs) most = cost < kForbidden ? std::max(most, cost) : most;
  shift_ = std::max(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(most))) - kBitsOfCost, 0);
  costs_.reserve(table.costs.size());
  for (const Cost cost : table.costs) {
    costs_.push_back(cost < kForbidden ? static_cast<std::int32_t>(cost >> shift_) : kForbiddenUnits);
  }
}

bool CoarseTable::min_minus(bool of_v, std::span<const Cost> moved, std::span<Cost> out, Scratch& scratch) const {
  if (*std::ranges::max_element(moved) > kMostMoved << shift_) return false;
  scratch.moved.resize(moved.size());
  scratch.out.resize(out.size());
  const Cost almost_one = (Cost{1} << shift_) - 1;
  for (std::size_t state = 0; state < moved.size(); ++state) {
    const Cost units = (moved[state] + almost_one) >> shift_;  // rounded up
    scratch.moved[state] = static_cast<std::int32_t>(std::max(units, -kMostMoved));
  }
  (of_v ? coarse_min_of_cols : coarse_min_of_rows)(costs_.data(), scratch.moved.data(), rows_, cols_,
                                                   scratch.out.data());
  for (std::size_t state = 0; state < out.size(); ++state) out[state] = Cost{scratch.out[state]} << shift_;
  return true;
}

}  // namespace autopar::engine
