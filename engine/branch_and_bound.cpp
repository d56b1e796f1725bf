#include "engine/branch_and_bound.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/bound.h"
#include "engine/index.h"
#include "engine/piece_search.h"
#include "engine/price_ascent.h"

namespace autopar::engine {
namespace {

constexpr std::size_t kRound = 8;                           // parts
constexpr int kMostSteps = 60;                              // sweeps per part and bounding
constexpr int kStepsPerLook = 20;                           // at whether they bring anything
constexpr double kLittle = 1e-3;                            // of the gap: a rise that does not
constexpr double kMuchSmaller = 0.7;                        // for another try of elimination
constexpr double kMuchFixed = 0.9;                          // values left, below which a part is bounded again
constexpr std::size_t kMostNumbers = std::size_t{1} << 23;  // of usage in one relation of an elimination
constexpr double kMostComparisons = 4e9;                    // of usage, row by row, in one
constexpr std::size_t kPointsPerRow = 64;                   // that take as long as making a row
constexpr Cost kFirstMargin = Cost{1} << 24;                // part of the root's gap that is searched first
constexpr Cost kMarginGrowth = 16;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of open parts, about; then depth first

}  // namespace

BranchAndBound::BranchAndBound(const CostNetwork& network, Part root, const BlockOptions& options)
    : network_(network),
      options_(options),
      history_(root.live.size()),
      most_open_(std::max<std::size_t>(kMostBytes / (sizeof(Cost) * 4 * (root.core->table_entries() + 1)), kRound)) {
  Node node;
  node.live = std::make_shared<const LiveValues>(root.live);
  node.bound = root.dual->bound();
  node.above = std::make_shared<const Part>(std::move(root));
  put(std::move(node));
}

void BranchAndBound::put(Node node) {
  node.number = num_made_++;
  open_.insert(std::move(node));
}

std::vector<BranchAndBound::Node> BranchAndBound::take_round(Cost cutoff) {
  while (!open_.empty() && open_.rbegin()->bound >= cutoff) open_.erase(std::prev(open_.end()));
  std::vector<Node> taken;
  const auto take = [&](std::set<Node>::iterator at) { taken.push_back(std::move(open_.extract(at).value())); };
  while (taken.size() < kRound / 2 && !open_.empty() && open_.size() < most_open_) take(open_.begin());
  while (taken.size() < kRound && !open_.empty()) {
    take(std::ranges::max_element(open_, std::less(), &Node::number));
  }
  return taken;
}

void BranchAndBound::search(Cost cutoff, const Deadline& deadline) {
  cutoff = std::min(cutoff, best_cost_);
  std::vector<Node> round = take_round(cutoff);
  std::vector<Result> results(round.size());
  tbb::parallel_for(std::size_t{0}, round.size(),
                    [&](std::size_t i) { results[i] = process(round[i], cutoff, deadline); });
  for (std::size_t i = 0; i < round.size(); ++i) {
    Result& result = results[i];
    if (result.cost < best_cost_) {
      best_cost_ = result.cost;
      best_ = std::move(result.assignment);
    }
    work_ += result.work;
    if (result.is_stopped) {
      open_.insert(std::move(round[i]));
      continue;
    }
    ++num_nodes_;
    for (const auto& [variable, score] : result.scores) history_.note(variable, score);
    for (Node& node : result.nodes) put(std::move(node));
  }
}

BranchAndBound::Result BranchAndBound::process(const Node& node, Cost cutoff, const Deadline& deadline) const {
  Result result;
  Node now = node;
  while (true) {
    std::optional<Part> bounded = bound_part(now, cutoff, deadline, result);
    result.is_stopped = deadline.passed();
    if (!bounded || result.is_stopped) return result;
    note(*bounded, bounded->dual->round(), result);
    cutoff = std::min(cutoff, result.cost);
    if (bounded->dual->bound() >= cutoff || close(*bounded, now, cutoff, deadline, result)) return result;
    Branching branching = choose_branching(network_, *bounded, cutoff, history_, deadline);
    result.work += branching.work;
    if (branching.is_empty) return result;
    now.above = std::make_shared<const Part>(std::move(*bounded));
    now.live = std::make_shared<const LiveValues>(std::move(branching.live));
    now.variable = -1;
    if (branching.variable < 0 && branching.has_excluded) continue;
    if (branching.variable < 0) {
      // Nothing is open, so the rounding was all there is.
      result.is_stopped = deadline.passed();
      return result;
    }
    result.scores = std::move(branching.scores);
    for (auto branch = branching.branches.rbegin(); branch != branching.branches.rend(); ++branch) {
      result.nodes.push_back({now.above, now.live, branching.variable, std::move(branch->values),
                              std::max(branch->bound, node.bound), now.tried, 0});
    }
    return result;
  }
}

std::optional<Part> BranchAndBound::bound_part(const Node& node, Cost cutoff, const Deadline& deadline,
                                               Result& result) const {
  LiveValues live = *node.live;
  if (node.variable >= 0) live[ix(node.variable)] = node.values;
  const Part* above = node.above.get();
  Part before;
  while (true) {
    std::optional<Part> part = make_part(network_, std::move(live), above);
    if (!part) return std::nullopt;
    PriceAscent ascent(*part->dual);
    Cost last = ascent.bound();
    const double little = kLittle * gap_of(*part, cutoff);
    for (int step = 1; step <= kMostSteps && !ascent.is_done() && ascent.bound() < cutoff; ++step) {
      if (deadline.passed()) return std::nullopt;
      ascent.step(cutoff);
      result.work += 4 * (part->core->table_entries() + 1);
      if (step % kStepsPerLook != 0) continue;
      if (static_cast<double>(ascent.bound() - last) < little) break;
      last = ascent.bound();
    }
    part->dual->restore(ascent.best());
    part->dual->sweep(Precision::kExact);
    if (part->dual->bound() >= cutoff) return std::nullopt;
    live = fixed(*part->dual, part->live, cutoff - 1);
    if (static_cast<double>(open_values(live)) >= kMuchFixed * static_cast<double>(open_values(part->live)))
      return part;
    before = std::move(*part);
    above = &before;
  }
}

/// Whether the part was searched to its end by elimination.
bool BranchAndBound::close(const Part& part, Node& node, Cost cutoff, const Deadline& deadline, Result& result) const {
  const std::size_t count = open_values(part.live);
  if (node.tried > 0 && static_cast<double>(count) > kMuchSmaller * static_cast<double>(node.tried)) return false;
  node.tried = count;
  // Each row of a relation keeps what it uses at each point, and is compared with all others at these.
  const std::size_t num_points = part.core->capacity().size() + 1;
  if (part.core->table_entries() >= kMostNumbers / num_points) return false;
  BlockOptions options = options_;
  const auto most_rows = static_cast<std::size_t>(std::sqrt(kMostComparisons / static_cast<double>(num_points)));
  options.max_rows = std::min(options.max_rows, most_rows);
  options.max_work /= 1 + num_points / kPointsPerRow;
  const auto search_here = [&](const std::vector<Block>& blocks) {
    std::vector<BlockResult> results;
    for (const Block& block : blocks) results.push_back(autopar::engine::search(block, options, deadline));
    return results;
  };
  // The optimum of the whole is often near the bound, however far the incumbent: look there first. What is within a
  // margin by its priced cost may cost more, and less may be found outside: then that is searched too.
  const Cost bound = part.dual->bound();
  Cost gap = cutoff - 1 - bound;
  Cost within = node.number == 0 ? gap / kFirstMargin : gap;
  while (true) {
    const PieceResult found = search_pieces(network_, part, bound + within, false, options, deadline, search_here);
    if (found.outcome != BlockResult::Outcome::kDone) return false;
    if (found.found) gap = std::min(gap, note(part, found.values, result) - 1 - bound);
    if (within >= gap) return true;
    within = within > gap / kMarginGrowth - 1 ? gap : (within + 1) * kMarginGrowth;
  }
}

Cost BranchAndBound::note(const Part& part, const std::vector<std::int32_t>& values, Result& result) const {
  Assignment assignment(values.size());
  for (std::size_t v = 0; v < values.size(); ++v) assignment[v] = part.live[v][ix(values[v])];
  const Cost cost = evaluate(network_, assignment);
  if (cost < result.cost) {
    result.cost = cost;
    result.assignment = std::move(assignment);
  }
  return cost;
}

}  // namespace autopar::engine
