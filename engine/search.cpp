#include <tbb/parallel_for.h>

#include <algorithm>
#include <map>

#include "engine/block.h"
#include "engine/index.h"

namespace autopar::engine {
namespace {

/// Splits the allowed values of a variable by the coarsest branching level that tells them apart (the choice on the
/// first mesh dim, then on the second, ...), else one by one.
std::vector<std::vector<std::int32_t>> split_values(const Block::Variable& variable) {
  std::vector<std::int32_t> allowed;
  for (std::size_t x = 0; x < variable.costs.size(); ++x) {
    if (variable.costs[x] < kForbidden) allowed.push_back(static_cast<std::int32_t>(x));
  }
  for (const std::vector<std::int32_t>& level : variable.levels) {
    std::map<std::int32_t, std::vector<std::int32_t>> groups;
    for (std::int32_t x : allowed) groups[level[ix(x)]].push_back(x);
    if (groups.size() < 2) continue;
    std::vector<std::vector<std::int32_t>> parts;
    for (auto& [group, values] : groups) parts.push_back(std::move(values));
    return parts;
  }
  std::vector<std::vector<std::int32_t>> single;
  for (std::int32_t x : allowed) single.push_back({x});
  return single;
}

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

BlockResult search_below(const Block& block, const BlockOptions& options, const Deadline& deadline, int depth) {
  BlockResult result = eliminate(block, {}, options, deadline);
  if (result.outcome == BlockResult::Outcome::kDone) {
    result.relation = detached(*result.relation);
    return result;
  }
  if (result.outcome == BlockResult::Outcome::kStopped || depth == options.max_depth || result.widest < 0) {
    return result;
  }
  const std::vector<Block> parts = split(block, result.widest);
  if (parts.size() < 2) return result;
  std::vector<BlockResult> found(parts.size());
  tbb::parallel_for(std::size_t{0}, parts.size(),
                    [&](std::size_t i) { found[i] = search_below(parts[i], options, deadline, depth + 1); });
  BlockResult merged = merge(std::move(found), options);
  ++merged.branch_nodes;
  return merged;
}

}  // namespace

std::vector<Block> split(const Block& block, std::int32_t variable) {
  std::vector<Block> parts;
  for (const std::vector<std::int32_t>& values : split_values(block.variables[ix(variable)])) {
    parts.push_back(restrict(block, variable, values));
  }
  return parts;
}

BlockResult merge(std::vector<BlockResult> parts, const BlockOptions& options) {
  BlockResult result;
  std::shared_ptr<Relation> merged;
  for (BlockResult& part : parts) {
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

}  // namespace autopar::engine
