#include "engine/relation.h"

#include <algorithm>
#include <bit>

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
                                        const std::vector<std::int32_t>& num_codes) {
  std::vector<Relation::Field> scope;
  std::int32_t shift = 0;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto bits = static_cast<std::int32_t>(std::bit_width(static_cast<std::uint32_t>(num_codes[i] - 1)));
    if (shift + bits > 63) return {};
    scope.push_back({variables[i], shift, bits});
    shift += bits;
  }
  return scope;
}

void keep_best_rows(Relation& relation) {
  struct Entry {
    std::uint64_t key;
    Cost cost;
    std::uint64_t origin;
    std::uint32_t row;
    auto operator<=>(const Entry&) const = default;
  };
  std::vector<Entry> order;
  order.reserve(relation.rows.size());
  for (std::size_t i = 0; i < relation.rows.size(); ++i) {
    const Relation::Row& row = relation.rows[i];
    order.push_back(
        {row.key, row.excess - row.price, (std::uint64_t{row.left} << 32) | row.right, static_cast<std::uint32_t>(i)});
  }
  std::sort(order.begin(), order.end());
  std::vector<std::uint32_t> kept;
  std::size_t group = 0;  // where the kept rows of the current key begin
  for (const Entry& entry : order) {
    if (!kept.empty() && relation.rows[kept.back()].key != entry.key) group = kept.size();
    // Costs ascend, so with one usage point the last kept row uses least and covers whatever any of them does.
    const std::size_t first = relation.num_points == 1 && kept.size() > group ? kept.size() - 1 : group;
    const bool beaten = std::any_of(kept.begin() + static_cast<std::ptrdiff_t>(first), kept.end(),
                                    [&](std::uint32_t other) { return covers(relation, other, entry.row); });
    if (!beaten) kept.push_back(entry.row);
  }
  std::vector<Relation::Row> rows;
  std::vector<std::int64_t> usage;
  rows.reserve(kept.size());
  usage.reserve(kept.size() * ix(relation.num_points));
  relation.least_excess = kept.empty() ? 0 : kForbidden;
  relation.most_price = 0;
  for (std::uint32_t row : kept) {
    rows.push_back(relation.rows[row]);
    usage.insert(usage.end(), relation.usage_of(row), relation.usage_of(row) + relation.num_points);
    relation.least_excess = std::min(relation.least_excess, relation.rows[row].excess);
    relation.most_price = std::max(relation.most_price, relation.rows[row].price);
  }
  relation.rows = std::move(rows);
  relation.usage = std::move(usage);
}

}  // namespace autopar::engine
