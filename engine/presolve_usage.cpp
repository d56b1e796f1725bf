#include <algorithm>
#include <utility>

#include "engine/index.h"
#include "engine/intern.h"
#include "engine/presolve.h"

/// Presolve's usage over time. While steps are taken it lies beside the network, as rows that variables share.
namespace autopar::engine {

void Presolve::take_usage() {
  work_.uses.resize(num_original_);
  for (std::size_t v = 0; v < num_original_; ++v) {
    const std::vector<Span> spans = std::exchange(net_.variables[v].spans, {});
    const Domain& domain = net_.domains[ix(net_.variables[v].domain)];
    if (net_.usage_limit < 0) continue;
    for (std::size_t s = 0; s < domain.usage.size(); ++s) {
      if (spans[s].start < spans[s].end) work_.uses[v].push_back({spans[s], intern(domain.usage[s])});
    }
  }
  for (Domain& domain : net_.domains) domain.usage.clear();
}

void Presolve::give_usage_back() {
  for (std::size_t v = 0; v < num_original_; ++v) {
    if (!work_.variable_alive[v] || work_.uses[v].empty()) continue;
    Domain domain = net_.domains[ix(net_.variables[v].domain)];
    for (const Use& use : work_.uses[v]) {
      net_.variables[v].spans.push_back(use.span);
      domain.usage.push_back(work_.rows[ix(use.row)]);
    }
    net_.variables[v].domain = intern(std::move(domain));
  }
}

/// Keeps only what can break the limit. Returns whether that may let other steps go on.
bool Presolve::reduce_usage() {
  if (net_.usage_limit < 0) return false;
  std::vector<std::int32_t> variables;
  const CostNetwork part = users(variables);
  const UsagePoints points = usage_points(part, all_values(part));
  if (std::ranges::any_of(points.capacity, [](std::int64_t left) { return left < 0; })) infeasible_ = true;
  if (infeasible_) return false;
  bool changed = false;
  for (std::size_t i = 0; i < variables.size(); ++i) changed |= set_usage(variables[i], points.of[i]);
  for (std::size_t i = 0; i < variables.size() && !infeasible_; ++i) {
    changed |= remove_excessive(variables[i], points.of[i], points.capacity);
  }
  counts_.time_points = static_cast<std::int64_t>(points.capacity.size());
  if (times_.empty()) {
    times_ = points.times;
  } else {
    std::vector<std::int32_t> kept;
    for (std::int32_t time : points.times) kept.push_back(times_[ix(time)]);
    times_ = std::move(kept);
  }
  net_.base_usage.clear();
  for (std::int64_t left : points.capacity) net_.base_usage.push_back(net_.usage_limit - left);
  if (points.capacity.empty()) net_.usage_limit = -1;
  return changed && !infeasible_;
}

/// A network of the variables with usage, without edges.
CostNetwork Presolve::users(std::vector<std::int32_t>& variables) const {
  CostNetwork part;
  part.usage_limit = net_.usage_limit;
  part.base_usage = net_.base_usage;
  for (std::size_t v = 0; v < num_original_; ++v) {
    if (work_.uses[v].empty()) continue;
    Domain domain{std::vector<Cost>(net_.domains[ix(net_.variables[v].domain)].costs.size(), 0), {}, {}};
    Variable variable{static_cast<std::int32_t>(part.domains.size())};
    for (const Use& use : work_.uses[v]) {
      variable.spans.push_back(use.span);
      domain.usage.push_back(work_.rows[ix(use.row)]);
    }
    part.domains.push_back(std::move(domain));
    part.variables.push_back(std::move(variable));
    variables.push_back(static_cast<std::int32_t>(v));
  }
  return part;
}

bool Presolve::set_usage(std::int32_t variable, const VariableUsage& usage) {
  std::vector<Use>& uses = work_.uses[ix(variable)];
  const std::size_t before = uses.size();
  uses.clear();
  const std::size_t num_pieces = usage.pieces.size();
  for (std::size_t p = 0; p < num_pieces; ++p) {
    std::vector<std::int64_t> row;
    for (std::size_t i = p; i < usage.amounts.size(); i += num_pieces) row.push_back(usage.amounts[i]);
    uses.push_back({{usage.pieces[p].first, usage.pieces[p].last}, intern(std::move(row))});
  }
  if (uses.size() >= before) return false;
  wake(variable);
  return true;
}

/// Values that use more than there is cannot be chosen.
bool Presolve::remove_excessive(std::int32_t variable, const VariableUsage& usage,
                                const std::vector<std::int64_t>& capacity) {
  if (usage.empty()) return false;
  const std::vector<std::int64_t> room = usage.room(capacity);
  std::vector<std::int32_t> kept;
  const std::int32_t size = net_.domain(variable).size();
  for (std::int32_t x = 0; x < size; ++x) {
    if (usage.fits(x, room)) kept.push_back(x);
  }
  if (kept.size() == ix(size)) return false;
  counts_.dead_values += size - static_cast<std::int32_t>(kept.size());
  if (kept.empty()) infeasible_ = true;
  if (infeasible_) return false;
  keep_values(variable, kept, views(variable));
  wake(variable);
  return true;
}

std::int32_t Presolve::intern(std::vector<std::int64_t> row) {
  const auto [entry, is_new] =
      work_.rows_by_content.try_emplace(std::move(row), static_cast<std::int32_t>(work_.rows.size()));
  if (is_new) work_.rows.push_back(entry->first);
  return entry->second;
}

std::int32_t Presolve::restrict_row(std::int32_t row, const std::vector<std::int32_t>& kept) {
  Key key{row};
  key.insert(key.end(), kept.begin(), kept.end());
  const auto [entry, is_new] = work_.row_memo.try_emplace(std::move(key), -1);
  if (is_new) {
    std::vector<std::int64_t> to;
    for (std::int32_t x : kept) to.push_back(work_.rows[ix(row)][ix(x)]);
    entry->second = intern(std::move(to));
  }
  return entry->second;
}

std::int32_t Presolve::intern(Domain domain) {
  const auto next = static_cast<std::int32_t>(net_.domains.size());
  const auto is_same = [&](std::int32_t index) { return net_.domains[ix(index)] == domain; };
  const std::int32_t index = work_.domains_by_hash.find_or_add(HashDomain{}(domain), next, is_same);
  if (index == next) net_.domains.push_back(std::move(domain));
  return index;
}

}  // namespace autopar::engine
