#include <tbb/parallel_for.h>

#include <algorithm>
#include <functional>

#include "engine/block.h"
#include "engine/block_bound.h"
#include "engine/index.h"

namespace autopar::engine {
namespace {

Block restrict(const Block& block, std::int32_t variable, const std::vector<std::int32_t>& values) {
  Block part = block;
  std::vector<Cost>& costs = part.variables[ix(variable)].costs;
  for (std::size_t x = 0; x < costs.size(); ++x) {
    if (!std::binary_search(values.begin(), values.end(), static_cast<std::int32_t>(x))) costs[x] = kForbidden;
  }
  return part;
}

/// The relation without its origins, which only make sense where it was made.
std::shared_ptr<Relation> detached(const Relation& relation) {
  auto copy = std::make_shared<Relation>(relation);
  copy->left.reset();
  copy->right.reset();
  for (Relation::Row& row : copy->rows) row.left = row.right = 0;
  return copy;
}

BlockResult search_below(const Block& block, const BlockOptions& options, const Deadline& deadline, int depth);

/// Solves the parts of a block that split the values of one variable, in parallel.
BlockResult branch(const Block& block, std::int32_t variable, const BlockOptions& options, const Deadline& deadline,
                   int depth) {
  const std::vector<Block> parts = split(block, variable);
  std::vector<BlockResult> found(parts.size());
  tbb::parallel_for(std::size_t{0}, parts.size(),
                    [&](std::size_t i) { found[i] = search_below(parts[i], options, deadline, depth + 1); });
  BlockResult merged = merge(found, options);
  ++merged.branch_nodes;
  return merged;
}

BlockResult search_below(const Block& block, const BlockOptions& options, const Deadline& deadline, int depth) {
  BlockBound bound(block);
  bound.tighten();
  if (bound.exceeds_gap()) {
    BlockResult nothing;
    nothing.branch_nodes = 1;
    nothing.relation = empty_relation(block);
    return nothing;
  }
  const Block tight = bound.tightened();
  BlockResult result = eliminate(tight, {}, options, deadline);
  if (result.outcome == BlockResult::Outcome::kTooLarge && depth < options.max_depth && result.widest >= 0 &&
      tight.variables[ix(result.widest)].num_allowed() > 1) {
    result = branch(tight, result.widest, options, deadline, depth);
  }
  if (result.outcome != BlockResult::Outcome::kDone) return result;
  const std::shared_ptr<Relation> relation = detached(*result.relation);
  bound.restore(*relation);
  result.relation = relation;
  return result;
}

}  // namespace

double Deadline::seconds_left() const {
  if (at == std::chrono::steady_clock::time_point::max()) return 0;
  const std::chrono::duration<double> left = at - std::chrono::steady_clock::now();
  return std::max(left.count(), 1e-3);
}

std::size_t Block::Variable::num_allowed() const {
  return static_cast<std::size_t>(
      std::count_if(costs.begin(), costs.end(), [](Cost cost) { return cost < kForbidden; }));
}

std::vector<Block> split(const Block& block, std::int32_t variable) {
  const Block::Variable& self = block.variables[ix(variable)];
  std::vector<std::int32_t> allowed;
  for (std::size_t x = 0; x < self.costs.size(); ++x) {
    if (self.costs[x] < kForbidden) allowed.push_back(static_cast<std::int32_t>(x));
  }
  std::vector<Block> parts;
  for (const std::vector<std::int32_t>& values : split_by_levels(self.levels, allowed)) {
    parts.push_back(restrict(block, variable, values));
  }
  return parts;
}

BlockResult merge(const std::vector<BlockResult>& parts, const BlockOptions& options) {
  BlockResult result;
  std::shared_ptr<Relation> merged;
  for (const BlockResult& part : parts) {
    result.branch_nodes += part.branch_nodes;
    if (result.outcome != BlockResult::Outcome::kDone) continue;
    result.outcome = part.outcome;
    result.widest = part.widest;
    if (part.outcome != BlockResult::Outcome::kDone) continue;
    if (!merged) {
      merged = std::make_shared<Relation>(*part.relation);
    } else {
      merged->rows.insert(merged->rows.end(), part.relation->rows.begin(), part.relation->rows.end());
      merged->usage.insert(merged->usage.end(), part.relation->usage.begin(), part.relation->usage.end());
    }
  }
  if (result.outcome != BlockResult::Outcome::kDone) return result;
  keep_best_rows(*merged);
  if (merged->rows.size() > 4 * options.max_rows) {
    result.outcome = BlockResult::Outcome::kTooLarge;
    result.widest = merged->scope.empty() ? -1 : merged->scope.front().variable;
    return result;
  }
  result.relation = std::move(merged);
  return result;
}

BlockResult search(const Block& block, const BlockOptions& options, const Deadline& deadline) {
  return search_below(block, options, deadline, 0);
}

std::vector<std::int32_t> find_values(const Block& block, Cost cost, const std::vector<std::int64_t>& usage,
                                      const BlockOptions& options, const Deadline& deadline) {
  BlockBound bound(block);
  bound.tighten();
  if (bound.exceeds_gap()) return {};
  const Block tight = bound.tightened();
  const BlockResult result = eliminate(tight, {}, options, deadline);
  if (result.outcome == BlockResult::Outcome::kTooLarge && result.widest >= 0) {
    for (const Block& part : split(tight, result.widest)) {
      // Costs below are those of the tightened block: its part of this one's cost is already taken out.
      std::vector<std::int32_t> values = find_values(part, cost - bound.inner_cost(part), usage, options, deadline);
      if (!values.empty()) return values;
    }
    return {};
  }
  if (result.outcome != BlockResult::Outcome::kDone) return {};
  Relation found = *result.relation;
  bound.restore(found);
  for (std::size_t i = 0; i < found.rows.size(); ++i) {
    const bool fits = std::equal(usage.begin(), usage.end(), found.usage_of(i), std::greater_equal<>());
    if (found.rows[i].excess - found.rows[i].price > cost || !fits) continue;
    std::vector<std::int32_t> values(block.variables.size(), 0);
    std::vector<std::int32_t> none;
    trace(*result.relation, i, values, none);
    return values;
  }
  return {};
}

}  // namespace autopar::engine
