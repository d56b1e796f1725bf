#include "engine/branching.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/index.h"
#include "engine/price_ascent.h"

namespace autopar::engine {
namespace {

constexpr std::size_t kBatch = 8;  // variables that are tried together
constexpr std::size_t kMostCandidates = 64;
constexpr int kTrialSteps = 20;             // sweeps per trial
constexpr std::size_t kMostBranches = 8;    // the likeliest values one by one, the others together
constexpr double kNoRise = 1e-4;            // share of the gap that counts as none
constexpr double kNoTurn = 1e-3;            // share of the gap that a difference in price must have to matter
constexpr double kGapWithoutCutoff = 0.01;  // of the bound
constexpr double kBetter = 1.05;            // for another batch to be worth while
constexpr double kKnownGood = 1e-2;         // score from which the history goes first

/// Score of being the reason that the rounding costs more than the bound, per variable.
std::vector<double> residuals(const Part& part, double gap) {
  const Core& core = *part.core;
  const Dual& dual = *part.dual;
  const std::vector<std::int32_t> rounded = dual.round();
  std::vector<double> residual(core.variables().size(), 0);
  for (std::size_t v = 0; v < residual.size(); ++v) {
    residual[v] = static_cast<double>(dual.node_cost(static_cast<std::int32_t>(v), rounded[v]));
  }
  for (std::size_t e = 0; e < core.edges().size(); ++e) {
    const CoreEdge& edge = core.edges()[e];
    const std::int32_t row = (*edge.u.state_of)[ix(rounded[ix(edge.u.variable)])];
    const std::int32_t col = (*edge.v.state_of)[ix(rounded[ix(edge.v.variable)])];
    const double cost = std::min(static_cast<double>(dual.edge_cost(static_cast<std::int32_t>(e), row, col)), 10 * gap);
    residual[ix(edge.u.variable)] += cost;
    residual[ix(edge.v.variable)] += cost;
  }
  return residual;
}

/// The relative change of prices at which the variable would take another value; infinite: none that matters.
double turning_point(const Part& part, std::int32_t variable, double gap) {
  const auto count = static_cast<std::int32_t>(part.live[ix(variable)].size());
  const auto marginal = [&](std::int32_t x) { return static_cast<double>(part.dual->marginal(variable, x)); };
  const auto price = [&](std::int32_t x) { return static_cast<double>(part.dual->usage_price(variable, x)); };
  std::int32_t best = 0;
  for (std::int32_t x = 1; x < count; ++x) best = marginal(x) < marginal(best) ? x : best;
  double least = std::numeric_limits<double>::infinity();
  for (std::int32_t x = 0; x < count; ++x) {
    const double turn = std::abs(price(x) - price(best));
    if (turn < kNoTurn * gap) continue;
    least = std::min(least, (marginal(x) - marginal(best) + 1e-4 * gap) / turn);
  }
  return least;
}

/// Open variables, those first whose splitting likely raises the bound.
std::vector<std::int32_t> rank_candidates(const Part& part, double gap, const BranchingHistory& history) {
  const std::vector<double> residual = residuals(part, gap);
  std::vector<double> turning(part.live.size());
  std::vector<std::int32_t> open;
  for (std::size_t v = 0; v < part.live.size(); ++v) {
    if (part.live[v].size() < 2) continue;
    open.push_back(static_cast<std::int32_t>(v));
    turning[v] = part.core->variables()[v].usage.empty() ? std::numeric_limits<double>::infinity()
                                                         : turning_point(part, open.back(), gap);
  }
  // The two orders in turns, then all others; before them what did well before, after them what did not.
  std::vector<double> rank(part.live.size(), static_cast<double>(2 * open.size()));
  std::vector<std::int32_t> sorted = open;
  std::ranges::stable_sort(sorted, std::greater(), [&](std::int32_t v) { return residual[ix(v)]; });
  for (std::size_t i = 0; i < sorted.size() && residual[ix(sorted[i])] > 0; ++i) {
    rank[ix(sorted[i])] = static_cast<double>(2 * i + 1);
  }
  std::ranges::stable_sort(sorted, std::less(), [&](std::int32_t v) { return turning[ix(v)]; });
  for (std::size_t i = 0; i < sorted.size() && std::isfinite(turning[ix(sorted[i])]); ++i) {
    double& best = rank[ix(sorted[i])];
    best = std::min(best, static_cast<double>(2 * i));
  }
  for (std::int32_t v : open) {
    const double known = history.score(v);
    if (known >= kKnownGood) {
      rank[ix(v)] = -known;
    } else if (known >= 0) {
      rank[ix(v)] += static_cast<double>(4 * open.size());
    }
  }
  std::ranges::stable_sort(open, std::less(), [&](std::int32_t v) { return rank[ix(v)]; });
  return open;
}

/// Parts of a variable's live values (positions in them): by level where the domain has some, else one by one.
std::vector<std::vector<std::int32_t>> groups_of(const CostNetwork& network, const Part& part, std::int32_t variable) {
  const std::vector<std::int32_t>& live = part.live[ix(variable)];
  std::vector<std::vector<std::int32_t>> groups;
  for (const std::vector<std::int32_t>& values : split_by_levels(network.domain(variable).levels, live)) {
    std::vector<std::int32_t> group;
    for (std::int32_t x : values) {
      group.push_back(static_cast<std::int32_t>(std::ranges::lower_bound(live, x) - live.begin()));
    }
    groups.push_back(std::move(group));
  }
  const auto least = [&](const std::vector<std::int32_t>& group) {
    Cost cost = kForbidden;
    for (std::int32_t x : group) cost = std::min(cost, part.dual->marginal(variable, x));
    return cost;
  };
  std::ranges::stable_sort(groups, std::less(), least);
  while (groups.size() > kMostBranches) {
    std::vector<std::int32_t> last = std::move(groups.back());
    groups.pop_back();
    groups.back().insert(groups.back().end(), last.begin(), last.end());
  }
  std::ranges::sort(groups.back());
  return groups;
}

/// One variable's trial.
struct Trial {
  std::int32_t variable = -1;
  std::vector<Branching::Branch> branches;  // below the cutoff; their values are the network's
  std::size_t excluded = 0;                 // values
  double score = 0;
  std::size_t steps = 0;
};

Cost bound_of_branch(const Part& part, std::int32_t variable, const std::vector<std::int32_t>& group, Cost cutoff,
                     std::size_t& steps) {
  Dual dual(*part.dual);
  // Twice what is missing: a branch that would end there is excluded anyway. Without an incumbent that is no measure.
  dual.charge_others(variable, group, std::min(2 * (cutoff - part.dual->bound()) + 1, kForbidden / 16));
  PriceAscent ascent(dual);
  for (int step = 0; step < kTrialSteps && !ascent.is_done() && ascent.bound() < cutoff; ++step) {
    ascent.step(cutoff);
    ++steps;
  }
  return ascent.bound();
}

Trial try_variable(const CostNetwork& network, const Part& part, std::int32_t variable, Cost cutoff,
                   const Deadline& deadline) {
  Trial trial;
  trial.variable = variable;
  const double gap = gap_of(part, cutoff);
  for (const std::vector<std::int32_t>& group : groups_of(network, part, variable)) {
    if (deadline.passed()) break;
    const Cost bound = bound_of_branch(part, variable, group, cutoff, trial.steps);
    if (bound >= cutoff) {
      trial.excluded += group.size();
      continue;
    }
    Branching::Branch branch{{}, bound};
    for (std::int32_t x : group) branch.values.push_back(part.live[ix(variable)][ix(x)]);
    trial.branches.push_back(std::move(branch));
  }
  std::ranges::stable_sort(trial.branches, std::less(), &Branching::Branch::bound);
  // Two branches decide how large the tree grows; a third costs more only if it is as low.
  const auto rise = [&](std::size_t branch) {
    return std::max(static_cast<double>(trial.branches[branch].bound - part.dual->bound()) / gap, kNoRise);
  };
  if (trial.branches.size() > 1) trial.score = std::sqrt(rise(0) * rise(1));
  return trial;
}

}  // namespace

double gap_of(const Part& part, Cost cutoff) {
  const Cost bound = part.dual->bound();
  if (cutoff < kForbidden) return static_cast<double>(cutoff - bound);
  return kGapWithoutCutoff * static_cast<double>(std::abs(bound)) + 1;
}

void BranchingHistory::note(std::int32_t variable, double score) {
  sums_[ix(variable)] += score;
  ++counts_[ix(variable)];
}

double BranchingHistory::score(std::int32_t variable) const {
  return counts_[ix(variable)] == 0 ? -1 : sums_[ix(variable)] / counts_[ix(variable)];
}

Branching choose_branching(const CostNetwork& network, const Part& part, Cost cutoff, const BranchingHistory& history,
                           const Deadline& deadline) {
  Branching chosen;
  chosen.live = part.live;
  const double gap = gap_of(part, cutoff);
  const std::vector<std::int32_t> candidates = rank_candidates(part, gap, history);
  const std::size_t table_entries = part.core->table_entries() + 1;
  double best = 0;
  for (std::size_t first = 0; first < std::min(candidates.size(), kMostCandidates); first += kBatch) {
    std::vector<Trial> trials(std::min(kBatch, candidates.size() - first));
    tbb::parallel_for(std::size_t{0}, trials.size(), [&](std::size_t i) {
      trials[i] = try_variable(network, part, candidates[first + i], cutoff, deadline);
    });
    if (deadline.passed()) return {};
    const double before = best;
    for (Trial& trial : trials) {
      chosen.work += 4 * trial.steps * table_entries;
      if (trial.branches.empty()) chosen.is_empty = true;
      if (chosen.is_empty) return chosen;
      if (trial.excluded > 0) {
        chosen.has_excluded = true;
        std::vector<std::int32_t>& left = chosen.live[ix(trial.variable)];
        left.clear();
        for (const Branching::Branch& branch : trial.branches) {
          left.insert(left.end(), branch.values.begin(), branch.values.end());
        }
        std::ranges::sort(left);
      }
      if (trial.branches.size() < 2) continue;
      chosen.scores.emplace_back(trial.variable, trial.score);
      if (trial.score <= best) continue;
      best = trial.score;
      chosen.variable = trial.variable;
      chosen.branches = std::move(trial.branches);
    }
    if (chosen.has_excluded || (best > kNoRise && best < kBetter * before)) break;
  }
  return chosen;
}

}  // namespace autopar::engine
