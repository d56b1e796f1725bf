#include <algorithm>
#include <set>

#include "engine/block.h"
#include "engine/index.h"

namespace autopar::engine {
namespace {

using RelationPtr = std::shared_ptr<const Relation>;

constexpr std::size_t kRowsPerLook = 1024;  // at the clock
/// With usage, a join is thinned of dominated rows when it has this many, and each time it doubles.
constexpr std::size_t kThinRows = std::size_t{1} << 16;

/// Thrown inside this file when a relation passes the row limit.
struct TooLarge {
  std::int32_t widest = -1;
};
struct Stopped {};

class Eliminator {
 public:
  Eliminator(const Block& block, const std::vector<RelationPtr>& given, const BlockOptions& options,
             const Deadline& deadline)
      : block_(block), options_(options), deadline_(deadline), neighbours_(block.variables.size()) {
    for (const Block::Variable& some : block.variables) {
      std::vector<std::int32_t> values;
      for (std::size_t x = 0; x < some.costs.size(); ++x) {
        if (some.costs[x] <= block.gap) values.push_back(static_cast<std::int32_t>(x));
      }
      allowed_.push_back(std::make_shared<const std::vector<std::int32_t>>(std::move(values)));
    }
    for (std::size_t v = 0; v < block.variables.size(); ++v) active_.push_back(node_relation(v));
    for (const Block::Edge& edge : block.edges) active_.push_back(edge_relation(edge));
    for (const RelationPtr& relation : given) active_.push_back(coded(relation));
    rest_price_ = block.outside_price;
    for (const RelationPtr& relation : active_) {
      floor_ += relation->least_excess;
      rest_price_ += relation->most_price;
      empty_ |= relation->rows.empty();
      link(*relation);
    }
  }

  RelationPtr run() {
    std::set<std::int32_t> open;
    for (std::size_t v = 0; v < block_.variables.size(); ++v) {
      if (!block_.variables[v].keep) open.insert(static_cast<std::int32_t>(v));
    }
    while (!open.empty() && !empty_) {
      if (deadline_.passed()) throw Stopped{};
      const std::int32_t next = narrowest(open);
      open.erase(next);
      eliminate_variable(next);
    }
    if (empty_) return empty_relation(block_);
    return decoded(*best_of(join_all(std::move(active_))));
  }

 private:
  const Block::Variable& variable(std::int32_t v) const { return block_.variables[ix(v)]; }
  const std::vector<std::int32_t>& allowed(std::int32_t v) const { return *allowed_[ix(v)]; }
  std::int32_t size(std::int32_t v) const { return std::max(1, static_cast<std::int32_t>(allowed(v).size())); }
  std::int32_t num_points() const { return static_cast<std::int32_t>(block_.capacity.size()); }

  Relation make(const std::vector<std::int32_t>& scope) const {
    std::vector<std::int32_t> sizes;
    for (std::int32_t v : scope) sizes.push_back(size(v));
    Relation relation;
    relation.scope = make_scope(scope, sizes);
    relation.num_points = num_points();
    if (relation.scope.size() != scope.size()) throw TooLarge{widest(scope)};
    for (Relation::Field& field : relation.scope) field.values = allowed_[ix(field.variable)];
    return relation;
  }

  /// A given relation in this search's codes, without the rows that have a value not allowed here.
  RelationPtr coded(const RelationPtr& given) const {
    std::vector<std::int32_t> scope;
    for (const Relation::Field& field : given->scope) scope.push_back(field.variable);
    auto relation = std::make_shared<Relation>(make(scope));
    relation->left = given;
    for (std::size_t i = 0; i < given->rows.size(); ++i) {
      Relation::Row row = given->rows[i];
      std::uint64_t key = 0;
      bool fits = true;
      for (std::size_t f = 0; f < given->scope.size() && fits; ++f) {
        const std::vector<std::int32_t>& values = allowed(scope[f]);
        const auto at = std::lower_bound(values.begin(), values.end(), given->scope[f].value(row.key));
        fits = at != values.end() && *at == given->scope[f].value(row.key);
        key |= static_cast<std::uint64_t>(at - values.begin()) << relation->scope[f].shift;
      }
      if (!fits) continue;
      row.key = key;
      row.left = static_cast<std::uint32_t>(i);
      row.right = 0;
      relation->rows.push_back(row);
      relation->usage.insert(relation->usage.end(), given->usage_of(i), given->usage_of(i) + given->num_points);
    }
    keep_best_rows(*relation);
    return relation;
  }

  /// The result, its keys made of the block's own values.
  RelationPtr decoded(const Relation& from) const {
    const RelationPtr blank = empty_relation(block_);
    auto relation = std::make_shared<Relation>(from);
    if (blank->scope.size() != from.scope.size()) throw TooLarge{widest_kept()};
    relation->scope = blank->scope;
    for (Relation::Row& row : relation->rows) {
      std::uint64_t key = 0;
      for (std::size_t f = 0; f < from.scope.size(); ++f) {
        key |= static_cast<std::uint64_t>(from.scope[f].value(row.key)) << blank->scope[f].shift;
      }
      row.key = key;
    }
    return relation;
  }

  std::int32_t widest_kept() const {
    std::vector<std::int32_t> kept;
    for (std::size_t v = 0; v < block_.variables.size(); ++v) {
      if (block_.variables[v].keep) kept.push_back(static_cast<std::int32_t>(v));
    }
    return widest(kept);
  }

  /// The variable with the most allowed values; -1 of none.
  std::int32_t widest(const std::vector<std::int32_t>& scope) const {
    if (scope.empty()) return -1;
    const auto open_values = [this](std::int32_t v) { return allowed(v).size(); };
    return *std::max_element(scope.begin(), scope.end(), [&](std::int32_t a, std::int32_t b) {
      return std::pair(open_values(a), -a) < std::pair(open_values(b), -b);
    });
  }

  RelationPtr node_relation(std::size_t v) const {
    // A kept variable's own cost is charged by whoever keeps it; here it only says which values are allowed.
    const Block::Variable& self = block_.variables[v];
    auto relation = std::make_shared<Relation>(make({static_cast<std::int32_t>(v)}));
    for (std::size_t code = 0; code < allowed_[v]->size(); ++code) {
      const std::size_t x = ix((*allowed_[v])[code]);
      const Cost price = self.prices.empty() ? 0 : self.prices[x];
      relation->rows.push_back({code, self.keep ? 0 : self.costs[x], self.keep ? 0 : price, 0, 0});
      for (std::size_t t = 0; t < block_.capacity.size(); ++t) {
        relation->usage.push_back(self.usage.empty() || self.keep ? 0 : self.usage[x * block_.capacity.size() + t]);
      }
    }
    keep_best_rows(*relation);
    return relation;
  }

  RelationPtr edge_relation(const Block::Edge& edge) const {
    const bool in_order = edge.u < edge.v;
    auto relation = std::make_shared<Relation>(make({std::min(edge.u, edge.v), std::max(edge.u, edge.v)}));
    const std::vector<Cost>& costs_u = variable(edge.u).costs;
    const std::vector<Cost>& costs_v = variable(edge.v).costs;
    const std::vector<std::int32_t>& values_u = allowed(edge.u);
    const std::vector<std::int32_t>& values_v = allowed(edge.v);
    for (std::size_t x = 0; x < values_u.size(); ++x) {
      for (std::size_t y = 0; y < values_v.size(); ++y) {
        const Cost cost = edge.costs[ix(values_u[x]) * costs_v.size() + ix(values_v[y])];
        if (add(add(costs_u[ix(values_u[x])], costs_v[ix(values_v[y])]), cost) > block_.gap) continue;
        const std::uint64_t key =
            in_order ? (x | (y << relation->scope[1].shift)) : (y | (x << relation->scope[1].shift));
        relation->rows.push_back({key, cost, 0, 0, 0});
      }
    }
    relation->usage.assign(relation->rows.size() * block_.capacity.size(), 0);
    keep_best_rows(*relation);
    return relation;
  }

  void link(const Relation& relation) {
    for (const Relation::Field& a : relation.scope) {
      for (const Relation::Field& b : relation.scope) {
        if (a.variable != b.variable) neighbours_[ix(a.variable)].insert(b.variable);
      }
    }
  }

  /// The open variable whose elimination makes the smallest relation (min-weight order), the first of equals.
  std::int32_t narrowest(const std::set<std::int32_t>& open) const {
    std::int32_t best = -1;
    double best_weight = 0;
    for (std::int32_t v : open) {
      double weight = 1;
      for (std::int32_t other : neighbours_[ix(v)]) weight *= size(other);
      if (best < 0 || weight < best_weight) {
        best = v;
        best_weight = weight;
      }
    }
    return best;
  }

  void eliminate_variable(std::int32_t v) {
    std::vector<RelationPtr> bucket;
    const auto has = [v](const RelationPtr& relation) { return relation->field(v) != nullptr; };
    std::copy_if(active_.begin(), active_.end(), std::back_inserter(bucket), has);
    std::erase_if(active_, has);
    const RelationPtr joined = join_all(std::move(bucket));
    const RelationPtr rest = project(joined, v);
    for (std::int32_t a : neighbours_[ix(v)]) {
      neighbours_[ix(a)].erase(v);
      for (std::int32_t b : neighbours_[ix(v)]) {
        if (a != b) neighbours_[ix(a)].insert(b);
      }
    }
    neighbours_[ix(v)].clear();
    floor_ += rest->least_excess;
    rest_price_ += rest->most_price;
    empty_ |= rest->rows.empty();
    active_.push_back(rest);
  }

  /// Joins relations, each time the one that adds the fewest variables, then rows.
  RelationPtr join_all(std::vector<RelationPtr> relations) {
    const auto first = std::min_element(relations.begin(), relations.end(), [](const auto& a, const auto& b) {
      return std::pair(a->scope.size(), a->rows.size()) < std::pair(b->scope.size(), b->rows.size());
    });
    RelationPtr joined = *first;
    relations.erase(first);
    floor_ -= joined->least_excess;
    rest_price_ -= joined->most_price;
    while (!relations.empty()) {
      const auto added = [&](const RelationPtr& relation) {
        return std::count_if(relation->scope.begin(), relation->scope.end(),
                             [&](const Relation::Field& f) { return joined->field(f.variable) == nullptr; });
      };
      const auto next = std::min_element(relations.begin(), relations.end(), [&](const auto& a, const auto& b) {
        return std::pair(added(a), a->rows.size()) < std::pair(added(b), b->rows.size());
      });
      floor_ -= (*next)->least_excess;
      rest_price_ -= (*next)->most_price;
      joined = join(joined, *next);
      // With usage a join of two frontiers is mostly dominated: thin it before the next one multiplies it.
      if (!block_.capacity.empty()) joined = best_of(joined);
      relations.erase(next);
    }
    return joined;
  }

  RelationPtr join(const RelationPtr& a, const RelationPtr& b);
  /// Drops variable `v` (none: -1) and keeps the best rows.
  RelationPtr project(const RelationPtr& from, std::int32_t v) const;
  RelationPtr best_of(const RelationPtr& from) const { return project(from, -1); }
  bool cut(const Relation& relation, const Relation::Row& row, const std::int64_t* usage) const;

  const Block& block_;
  const BlockOptions& options_;
  const Deadline& deadline_;
  std::vector<std::shared_ptr<const std::vector<std::int32_t>>> allowed_;  // values within the gap, per variable
  std::vector<RelationPtr> active_;
  std::vector<std::set<std::int32_t>> neighbours_;
  std::size_t work_ = 0;  // rows made so far
  Cost floor_ = 0;        // Σ least excess of the active relations: every solution pays at least this elsewhere
  Cost rest_price_ = 0;   // the most that usage priced elsewhere can be
  bool empty_ = false;
};

// What a solution with this row costs at least: the row, the least of everything not joined yet, and for kept variables
// (which nobody charges here) their own cost.
bool Eliminator::cut(const Relation& relation, const Relation::Row& row, const std::int64_t* usage) const {
  Cost total = add(row.excess, floor_);
  total = add(total, std::max<Cost>(0, block_.capacity_price - row.price - rest_price_));
  for (const Relation::Field& field : relation.scope) {
    if (!variable(field.variable).keep) continue;
    total = add(total, variable(field.variable).costs[ix(field.value(row.key))]);
  }
  if (total > block_.gap) return true;
  for (std::size_t t = 0; t < block_.capacity.size(); ++t) {
    if (usage[t] > block_.capacity[t]) return true;
  }
  return false;
}

RelationPtr Eliminator::join(const RelationPtr& a, const RelationPtr& b) {
  std::vector<std::int32_t> scope;
  std::vector<Relation::Field> shared_a;
  std::vector<Relation::Field> shared_b;
  for (const Relation::Field& field : a->scope) {
    scope.push_back(field.variable);
    if (const Relation::Field* other = b->field(field.variable)) {
      shared_a.push_back(field);
      shared_b.push_back(*other);
    }
  }
  for (const Relation::Field& field : b->scope) {
    if (!a->field(field.variable)) scope.push_back(field.variable);
  }
  std::sort(scope.begin(), scope.end());
  Relation out = make(scope);
  out.left = a;
  out.right = b;
  const auto shared_key = [](const std::vector<Relation::Field>& fields, std::uint64_t key) {
    std::uint64_t packed = 0;
    for (const Relation::Field& f : fields) packed = (packed << f.bits) | static_cast<std::uint64_t>(f.code(key));
    return packed;
  };
  const auto spread = [&out](const Relation& from, std::uint64_t key) {
    std::uint64_t packed = 0;
    for (const Relation::Field& f : from.scope) {
      packed |= static_cast<std::uint64_t>(f.code(key)) << out.field(f.variable)->shift;
    }
    return packed;
  };
  struct Match {
    std::uint64_t shared;
    std::uint64_t key;
    std::uint32_t row;
  };
  std::vector<Match> index;
  index.reserve(b->rows.size());
  for (std::size_t row = 0; row < b->rows.size(); ++row) {
    index.push_back(
        {shared_key(shared_b, b->rows[row].key), spread(*b, b->rows[row].key), static_cast<std::uint32_t>(row)});
  }
  std::sort(index.begin(), index.end(),
            [](const Match& x, const Match& y) { return std::pair(x.shared, x.row) < std::pair(y.shared, y.row); });
  std::vector<std::int64_t> usage(block_.capacity.size());
  std::size_t thin_at = std::min(options_.max_rows, kThinRows);
  for (std::size_t i = 0; i < a->rows.size(); ++i) {
    const Relation::Row& row = a->rows[i];
    const std::uint64_t wanted = shared_key(shared_a, row.key);
    const std::uint64_t key = spread(*a, row.key);
    auto match = std::lower_bound(index.begin(), index.end(), wanted,
                                  [](const Match& m, std::uint64_t shared) { return m.shared < shared; });
    for (; match != index.end() && match->shared == wanted; ++match) {
      const Relation::Row& other = b->rows[match->row];
      const Relation::Row made{key | match->key, add(row.excess, other.excess), row.price + other.price,
                               static_cast<std::uint32_t>(i), match->row};
      for (std::size_t t = 0; t < usage.size(); ++t) usage[t] = a->usage_of(i)[t] + b->usage_of(match->row)[t];
      if (cut(out, made, usage.data())) continue;
      if (out.rows.size() >= thin_at) {
        if (num_points() > 0) keep_best_rows(out);
        if (out.rows.size() >= options_.max_rows) throw TooLarge{widest(scope)};
        thin_at = std::min(options_.max_rows, std::max(kThinRows, 2 * out.rows.size()));
      }
      if (++work_ > options_.max_work) throw TooLarge{widest(scope)};
      if (work_ % kRowsPerLook == 0 && deadline_.passed()) throw Stopped{};
      out.rows.push_back(made);
      out.usage.insert(out.usage.end(), usage.begin(), usage.end());
    }
  }
  return std::make_shared<Relation>(std::move(out));
}

RelationPtr Eliminator::project(const RelationPtr& from, std::int32_t v) const {
  std::vector<std::int32_t> scope;
  for (const Relation::Field& field : from->scope) {
    if (field.variable != v) scope.push_back(field.variable);
  }
  Relation out = make(scope);
  out.left = from;
  for (std::size_t i = 0; i < from->rows.size(); ++i) {
    Relation::Row row = from->rows[i];
    std::uint64_t key = 0;
    for (const Relation::Field& field : out.scope) {
      key |= static_cast<std::uint64_t>(from->field(field.variable)->code(row.key)) << field.shift;
    }
    row.key = key;
    row.left = static_cast<std::uint32_t>(i);
    row.right = 0;
    out.rows.push_back(row);
  }
  out.usage = from->usage;
  keep_best_rows(out);
  return std::make_shared<Relation>(std::move(out));
}

}  // namespace

std::shared_ptr<const Relation> empty_relation(const Block& block) {
  std::vector<std::int32_t> scope;
  std::vector<std::int32_t> sizes;
  for (std::size_t v = 0; v < block.variables.size(); ++v) {
    if (!block.variables[v].keep) continue;
    scope.push_back(static_cast<std::int32_t>(v));
    sizes.push_back(static_cast<std::int32_t>(block.variables[v].costs.size()));
  }
  auto relation = std::make_shared<Relation>();
  relation->scope = make_scope(scope, sizes);
  relation->num_points = static_cast<std::int32_t>(block.capacity.size());
  return relation;
}

BlockResult eliminate(const Block& block, const std::vector<std::shared_ptr<const Relation>>& given,
                      const BlockOptions& options, const Deadline& deadline) {
  BlockResult result;
  result.branch_nodes = 1;
  try {
    result.relation = Eliminator(block, given, options, deadline).run();
  } catch (const TooLarge& too_large) {
    result.outcome = BlockResult::Outcome::kTooLarge;
    result.widest = too_large.widest;
  } catch (const Stopped&) {
    result.outcome = BlockResult::Outcome::kStopped;
  }
  return result;
}

void trace(const Relation& relation, std::size_t row, std::vector<std::int32_t>& values,
           std::vector<std::int32_t>& given_rows) {
  std::vector<std::pair<const Relation*, std::size_t>> open{{&relation, row}};
  while (!open.empty()) {
    const auto [from, at] = open.back();
    open.pop_back();
    for (const Relation::Field& field : from->scope) values[ix(field.variable)] = field.value(from->rows[at].key);
    if (from->tag >= 0) given_rows[ix(from->tag)] = static_cast<std::int32_t>(at);
    if (from->left) open.emplace_back(from->left.get(), from->rows[at].left);
    if (from->right) open.emplace_back(from->right.get(), from->rows[at].right);
  }
}

}  // namespace autopar::engine
