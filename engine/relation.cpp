#include "engine/relation.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "engine/index.h"

namespace autopar::engine {
namespace {

/// True if the row at `a` is no worse than the one at `b` in cost and at every usage point.
bool covers(const Relation& relation, std::size_t a, std::size_t b) {
  const Relation::Row& one = relation.rows[a];
  const Relation::Row& two = relation.rows[b];
  if (one.excess - one.price > two.excess - two.price) return false;
  const std::int64_t* used = relation.usage_of(a);
  const std::int64_t* other = relation.usage_of(b);
  return std::equal(used, used + relation.num_points, other, [](std::int64_t x, std::int64_t y) { return x <= y; });
}

}  // namespace

const Relation::Field* Relation::field(std::int32_t variable) const {
  const auto found = std::find_if(scope.begin(), scope.end(), [&](const Field& f) { return f.variable == variable; });
  return found == scope.end() ? nullptr : &*found;
}

std::vector<Relation::Field> make_scope(const std::vector<std::int32_t>& variables,
                                        const std::vector<std::int32_t>& domain_sizes) {
  std::vector<Relation::Field> scope;
  std::int32_t shift = 0;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto bits = static_cast<std::int32_t>(std::bit_width(static_cast<std::uint32_t>(domain_sizes[i] - 1)));
    if (shift + bits > 63) return {};
    scope.push_back({variables[i], shift, bits});
    shift += bits;
  }
  return scope;
}

void keep_best_rows(Relation& relation) {
  std::vector<std::uint32_t> order(relation.rows.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const Relation::Row& one = relation.rows[a];
    const Relation::Row& two = relation.rows[b];
    if (one.key != two.key) return one.key < two.key;
    if (one.excess - one.price != two.excess - two.price) return one.excess - one.price < two.excess - two.price;
    return std::pair(one.left, one.right) < std::pair(two.left, two.right);
  });
  std::vector<std::uint32_t> kept;
  std::size_t group = 0;  // where the kept rows of the current key begin
  for (std::uint32_t row : order) {
    if (!kept.empty() && relation.rows[kept.back()].key != relation.rows[row].key) group = kept.size();
    const bool beaten = std::any_of(kept.begin() + static_cast<std::ptrdiff_t>(group), kept.end(),
                                    [&](std::uint32_t other) { return covers(relation, other, row); });
    if (!beaten) kept.push_back(row);
  }
  std::vector<Relation::Row> rows;
  std::vector<std::int64_t> usage;
  rows.reserve(kept.size());
  usage.reserve(kept.size() * ix(relation.num_points));
  relation.least_excess = kept.empty() ? 0 : kForbidden;
  for (std::uint32_t row : kept) {
    rows.push_back(relation.rows[row]);
    usage.insert(usage.end(), relation.usage_of(row), relation.usage_of(row) + relation.num_points);
    relation.least_excess = std::min(relation.least_excess, relation.rows[row].excess);
  }
  relation.rows = std::move(rows);
  relation.usage = std::move(usage);
}

}  // namespace autopar::engine
