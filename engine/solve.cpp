#include "engine/solve.h"

#include <tbb/global_control.h>
#include <tbb/info.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "engine/block_tasks.h"
#include "engine/bound.h"
#include "engine/comm.h"
#include "engine/index.h"
#include "engine/part.h"
#include "engine/piece_search.h"
#include "engine/pool.h"
#include "engine/presolve.h"
#include "engine/price_ascent.h"
#include "engine/repeats.h"

namespace autopar::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxSweeps = 1000;
constexpr std::size_t kFewPoints = 32;  // usage points whose prices are searched one after the other
constexpr int kSweepsPerFixing = 8;     // of the short network
constexpr int kSweepsPerLook = 5;
constexpr std::size_t kManyEntries = 1'000'000;  // of tables: then values are fixed while the bound still rises
constexpr int kStepsPerVisit = 20;               // of an ascent, between roundings
constexpr std::size_t kRoundings = 8;
constexpr Cost kWideGap = 1000;  // a gap of more than a thousandth is worth to look for incumbents first
constexpr std::size_t kSmallestBlock = 16;
constexpr std::size_t kLargestBlock = 64;
constexpr std::size_t kBlockRows = 20'000;

/// Thrown when a limit comes.
struct OutOfTime {};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Rank 0's search. The bound comes first: sweeps over the whole network, values fixed away by reduced costs. Then
/// solutions are looked for within a small margin above the bound, which widens until one is found: within a margin
/// nearly everything is cut, and the first solution found is the optimum.
class Solver {
 public:
  Solver(const CostNetwork& network, const Options& options, Comm& comm,
         const std::function<void(const Progress&)>& progress)
      : network_(network), options_(options), comm_(comm), progress_(progress) {
    block_options_.max_rows = options.max_rows;
    if (options.max_branch_nodes == 0) {
      block_options_.max_depth = 0;
      block_options_.max_work = options.max_rows;
    }
    if (options.time_limit_s > 0) {
      deadline_ = Deadline::after(start_, options.time_limit_s);
    }
  }

  Solution run() {
    solution_.stats.variables = network_.num_variables();
    presolve_.emplace(network_, PresolveSteps{.deadline = deadline_});
    solution_.stats.presolve_s = seconds_since(start_);
    if (presolve_->infeasible()) return finish(Status::kInfeasible);
    solution_.stats.presolve = presolve_->counts();
    solution_.stats.variables_after_presolve = net().num_variables();
    if (options_.cutoff < kForbidden) best_ = options_.cutoff - presolve_->constant();
    try {
      return finish(search_root());
    } catch (const OutOfTime&) {
      return finish(solution_.assignment.empty() ? Status::kNoSolution : Status::kLimitReached);
    }
  }

 private:
  const CostNetwork& net() const { return presolve_->reduced(); }

  Status search_root() {
    const std::optional<ShortNetwork> shortened = shorten(net());
    std::optional<Part> whole = shortened ? bound_short(*shortened) : make_part(net(), all_values(net()), nullptr);
    solve_part(std::move(whole), true);
    return solution_.assignment.empty() ? Status::kInfeasible : Status::kOptimal;
  }

  /// The whole network with messages found on the short one, where sweeps cost little, without a look at usage. Values
  /// are fixed away meanwhile. Nothing if no better solution is left.
  std::optional<Part> bound_short(const ShortNetwork& shortened) {
    LiveValues live = all_values(net());
    std::optional<Part> small;
    while (true) {
      if (deadline_.passed()) throw OutOfTime{};
      Part next = make_short_part(net(), live, shortened);
      if (small) next.dual->warm_start(*small->dual);
      small = std::move(next);
      for (int sweep = 0; sweep < kSweepsPerFixing && !deadline_.passed(); ++sweep)
        small->dual->sweep(Precision::kCoarse);
      solution_.stats.sweeps += kSweepsPerFixing;
      std::optional<Part> part = make_part(net(), std::move(live), *small, shortened);
      if (!part) return std::nullopt;
      Part& whole = *part;
      offer(whole.live, whole.dual->round());
      raise_bound(whole.dual->bound());
      report("bound");
      if (whole.dual->bound() >= best_) return std::nullopt;
      live = fixed(*whole.dual, whole.live, best_ - 1);
      if (std::ranges::any_of(live, [](const auto& values) { return values.empty(); })) return std::nullopt;
      if (open_values(live) > open_values(whole.live) / 2) return part;
    }
  }

  /// Finds the best solution in `start` that beats the incumbent. Looks within margins above the bound, each four
  /// times the last one; where that grows too large, splits a variable's values and solves the parts, depth first. The
  /// incumbent changes only for the better, so the first of equals in this fixed order stays.
  void solve_part(std::optional<Part> start, bool root) {
    const std::optional<Part> part = tighten(std::move(start), best_ - 1, true, root);
    if (root) note_root(part);
    if (!part) return;
    if (!part->core->capacity().empty()) search_among_roundings(*part);
    if (search_margins(*part, root)) return;
    const bool may_branch = options_.max_branch_nodes < 0 || solution_.stats.branch_nodes < options_.max_branch_nodes;
    if (!may_branch) throw OutOfTime{};
    branch(*part);
  }

  /// Of blocks that are tried in passing.
  BlockOptions small_blocks() const { return {std::min(block_options_.max_rows, kBlockRows), 8 * kBlockRows, 0}; }

  /// Searches within growing margins above the part's bound, until something is found or the incumbent is reached.
  /// Returns false if relations grew too large.
  bool search_margins(const Part& part, bool root) {
    const Cost bound = part.dual->bound();
    Cost margin = std::max<Cost>(bound / 100'000'000, 1);
    bool early = true;    // one search may stop below its target; then each ends at its own, so that the margin grows
    bool improve = root;  // incumbents by neighbourhoods, once the margin says that the gap is wide
    while (bound < best_ && !closed()) {
      if (margin > bound / kWideGap && options_.max_branch_nodes == 0) return false;
      if (improve && margin > bound / kWideGap) {
        search_neighbourhoods(part);
        improve = false;
      }
      const bool last = margin >= kForbidden / 16 || bound + margin >= best_ - 1;
      const Cost target = last ? best_ - 1 : bound + margin;
      Cost reached = target;
      if (!find_within(fixed(*part.dual, part.live, target), part, reached, early)) return false;
      if (root) raise_bound(std::min(best_, reached + 1));
      if (best_ <= reached || (last && reached == target)) break;
      early = early && reached == target;
      margin = reached == target ? 4 * margin : std::max<Cost>(reached - bound, 1) / 8 * 9 + 1;
    }
    return true;
  }

  void note_root(const std::optional<Part>& root) {
    solution_.stats.bound_s = seconds_since(start_) - solution_.stats.presolve_s;
    if (!root) return;
    raise_bound(root->dual->bound());
    for (const std::vector<std::int32_t>& values : root->live) {
      solution_.stats.values_after_fixing += static_cast<std::int64_t>(values.size());
    }
  }

  bool closed() const {
    if (best_ >= kForbidden) return false;
    const auto gap = static_cast<double>(best_ - bound_);
    return gap <= options_.gap * static_cast<double>(std::max<Cost>(best_ + presolve_->constant(), 1));
  }

  /// Where usage binds, roundings near the turning prices either waste capacity or pass it. The best mixture of the
  /// last few, each variable taking its value from any of them, is a small problem and mostly a very good incumbent.
  void search_among_roundings(const Part& whole) {
    LiveValues live(net().variables.size());
    for (const Assignment& rounding : roundings_) {
      for (std::size_t v = 0; v < live.size(); ++v) live[v].push_back(rounding[v]);
    }
    for (std::vector<std::int32_t>& values : live) {
      std::sort(values.begin(), values.end());
      values.erase(std::unique(values.begin(), values.end()), values.end());
    }
    const std::optional<Part> part = tighten(make_part(net(), std::move(live), &whole), best_ - 1, false, false);
    Cost target = best_ - 1;
    if (part) search_pieces(*part, target, false);
  }

  /// Large-neighbourhood search: frees a connected block of variables at a time, the others keeping the incumbent's
  /// values, and finds the block's best values exactly. Small blocks first; passes over the network until the largest
  /// size brings nothing. Blocks that grow too large are left alone: this is for incumbents only.
  void search_neighbourhoods(const Part& part) {
    const BlockOptions whole = std::exchange(block_options_, small_blocks());
    for (std::size_t size = kSmallestBlock; size <= kLargestBlock && !incumbent_.empty() && !closed(); size *= 2) {
      const Cost before = best_;
      for (std::size_t seed = 0; seed < part.live.size(); seed += size / 4) {
        search_block(part, neighbourhood(part, static_cast<std::int32_t>(seed), size));
      }
      if (best_ < before) size /= 2;  // again
    }
    block_options_ = whole;
  }

  void search_block(const Part& part, const std::vector<std::int32_t>& block) {
    LiveValues live(part.live.size());
    for (std::size_t v = 0; v < live.size(); ++v) live[v] = {incumbent_[v]};
    for (std::int32_t v : block) {
      live[ix(v)] = part.live[ix(v)];
      const auto at = std::lower_bound(live[ix(v)].begin(), live[ix(v)].end(), incumbent_[ix(v)]);
      if (at == live[ix(v)].end() || *at != incumbent_[ix(v)]) live[ix(v)].insert(at, incumbent_[ix(v)]);
    }
    const std::optional<Part> freed = tighten(make_part(net(), std::move(live), &part), best_ - 1, false, false);
    if (freed) search_margins(*freed, false);
  }

  /// Open variables around `seed`, breadth first.
  static std::vector<std::int32_t> neighbourhood(const Part& part, std::int32_t seed, std::size_t size) {
    std::vector<char> seen(part.live.size(), 0);
    std::vector<std::int32_t> found{seed};
    seen[ix(seed)] = 1;
    for (std::size_t next = 0; next < found.size() && found.size() < size; ++next) {
      for (std::int32_t edge : part.core->variables()[ix(found[next])].edges) {
        const std::int32_t other = part.core->other_end(edge, found[next]).variable;
        if (seen[ix(other)]) continue;
        seen[ix(other)] = 1;
        found.push_back(other);
      }
    }
    return found;
  }

  /// Makes the best solution of at most `target` among `live` the incumbent, if there is one. Lowers `target` to what
  /// was searched if it is allowed (`early`) and wise to stop before. Returns false if relations grew too large.
  bool find_within(LiveValues live, const Part& whole, Cost& target, bool early) {
    const std::optional<Part> part = tighten(make_part(net(), std::move(live), &whole), target, false, false);
    return !part || search_pieces(*part, target, early);
  }

  /// On the variable that made relations too large when the part was searched, or a better one.
  void branch(const Part& part) {
    ++solution_.stats.branch_nodes;
    const std::int32_t variable = branching_variable(part, widest_);
    for (std::vector<std::int32_t>& values : split(part, variable)) {
      LiveValues below = part.live;
      below[ix(variable)] = std::move(values);
      solve_part(make_part(net(), std::move(below), &part), false);
    }
  }

  /// Returns whether the part is done up to `target`, which may be lowered if `early`. If not, relations were too
  /// large.
  bool search_pieces(const Part& part, Cost& target, bool early) {
    const PieceResult found =
        engine::search_pieces(net(), part, target, early, block_options_, deadline_,
                              [this](const std::vector<Block>& blocks) { return search_on_ranks(blocks); });
    Stats& stats = solution_.stats;
    stats.segments = std::max(stats.segments, found.num_pieces);
    stats.segment_classes = std::max(stats.segment_classes, found.num_classes);
    target = found.target;
    widest_ = found.widest;
    if (found.outcome == BlockResult::Outcome::kStopped) throw OutOfTime{};
    if (found.found) offer(part.live, found.values);
    return found.outcome == BlockResult::Outcome::kDone;
  }

  std::vector<BlockResult> search_on_ranks(const std::vector<Block>& blocks) {
    Stats& stats = solution_.stats;
    const std::int64_t before = stats.tasks;
    std::vector<BlockResult> results =
        search_on_all_ranks(blocks, block_options_, deadline_, comm_, [&](std::size_t done, std::size_t total) {
          stats.tasks = before + static_cast<std::int64_t>(done);
          tasks_total_ = before + static_cast<std::int64_t>(total);
          report("search");
        });
    for (const BlockResult& result : results) stats.branch_nodes += result.branch_nodes;
    if (deadline_.passed()) throw OutOfTime{};
    return results;
  }

  /// Where usage is priced, what keeps the bound from the optimum are the largest pieces of it: the variable whose
  /// usage price differs most between its values. Else the one that made a relation too large.
  static std::int32_t branching_variable(const Part& part, std::int32_t widest) {
    Cost most = 0;
    for (std::size_t v = 0; v < part.live.size(); ++v) {
      const auto variable = static_cast<std::int32_t>(v);
      if (part.core->variables()[v].usage.empty()) continue;
      Cost least = kForbidden;
      Cost largest = 0;
      for (std::size_t x = 0; x < part.live[v].size(); ++x) {
        const Cost price = part.dual->usage_price(variable, static_cast<std::int32_t>(x));
        least = std::min(least, price);
        largest = std::max(largest, price);
      }
      const Cost spread = largest - least;
      if (spread <= most) continue;
      most = spread;
      widest = variable;
    }
    if (widest >= 0) return widest;
    const auto largest = std::ranges::max_element(part.live, {}, [](const auto& values) { return values.size(); });
    return static_cast<std::int32_t>(largest - part.live.begin());
  }

  /// Parts of a variable's live values by the coarsest branching level that tells them apart, the most promising first.
  std::vector<std::vector<std::int32_t>> split(const Part& part, std::int32_t variable) const {
    const std::vector<std::int32_t>& values = part.live[ix(variable)];
    const auto cheapest = [&](const std::vector<std::int32_t>& some) {
      Cost least = kForbidden;
      for (std::int32_t x : some) {
        const auto at = std::lower_bound(values.begin(), values.end(), x) - values.begin();
        least = std::min(least, part.dual->node_cost(variable, static_cast<std::int32_t>(at)));
      }
      return least;
    };
    std::vector<std::vector<std::int32_t>> parts = split_by_levels(net().domain(variable).levels, values);
    std::stable_sort(parts.begin(), parts.end(),
                     [&](const auto& a, const auto& b) { return cheapest(a) < cheapest(b); });
    return parts;
  }

  /// Bounds `part` and fixes values away that no solution of at most `target` has, again and again while that helps.
  /// With `priced`, looks for better prices too. At the root the bound is the whole problem's. Returns nothing if no
  /// such solution is left, or `part` is nothing.
  std::optional<Part> tighten(std::optional<Part> part, Cost target, bool priced, bool root) {
    while (part) {
      if (deadline_.passed()) throw OutOfTime{};
      roundings_.clear();
      const bool is_whole = bound_part(*part, target, priced, root);
      target = std::min(target, best_ - 1);
      if (part->dual->bound() > target) return std::nullopt;
      LiveValues live = fixed(*part->dual, part->live, target);
      if (is_whole && open_values(live) * 10 > open_values(part->live) * 9) return part;
      part = make_part(net(), std::move(live), &*part);
    }
    return std::nullopt;
  }

  /// Returns false if it ended early, with a part so large that its values should be fixed before more sweeps.
  bool bound_part(Part& part, Cost target, bool priced, bool root) {
    Dual& dual = *part.dual;
    const auto visit = [&](const std::vector<std::int32_t>& rounded) {
      offer(part.live, rounded);
      if (root) raise_bound(dual.bound());
      report("bound");
      if (deadline_.passed()) throw OutOfTime{};
    };
    const bool may_end_early = part.core->table_entries() > kManyEntries;
    const bool has_prices = priced && !dual.prices().empty();
    const int most = has_prices ? kMaxSweeps / 4 : kMaxSweeps;
    Convergence convergence(dual);
    for (int done = 0; done < most;) {
      const int sweeps = convergence.run(target, may_end_early ? kSweepsPerLook : most - done, deadline_);
      solution_.stats.sweeps += sweeps;
      done += sweeps;
      visit(dual.round());
      target = std::min(target, best_ - 1);
      if (convergence.is_done() || dual.bound() > target) break;
      if (may_end_early && likely_left(dual, target) < open_values(part.live) / 2) return false;
    }
    if (!has_prices) return true;
    if (dual.prices().size() <= kFewPoints) {
      solution_.stats.sweeps += search_prices(dual, target, visit);
    } else {
      climb(dual, target, visit);
    }
    solution_.stats.sweeps += converge(dual, target, kMaxSweeps, deadline_);
    visit(dual.round());
    return true;
  }

  /// About how many values fixing would leave open.
  static std::size_t likely_left(const Dual& dual, Cost target) {
    std::size_t left = 0;
    for (std::size_t v = 0; v < dual.core().variables().size(); ++v) {
      const auto variable = static_cast<std::int32_t>(v);
      const std::size_t size = dual.core().variables()[v].costs.size();
      std::size_t here = 0;
      for (std::size_t x = 0; x < size; ++x) {
        here += dual.marginal(variable, static_cast<std::int32_t>(x)) <= target - dual.bound() ? 1U : 0U;
      }
      if (here > 1) left += here;
    }
    return left;
  }

  /// For more usage points than can be searched one after the other.
  void climb(Dual& dual, Cost target, const std::function<void(const std::vector<std::int32_t>&)>& visit) {
    PriceAscent ascent(dual, true);
    for (int step = 1; step <= kMaxSweeps && !ascent.is_done() && ascent.bound() <= target; ++step) {
      if (deadline_.passed()) throw OutOfTime{};
      ascent.step(target);
      ++solution_.stats.sweeps;
      if (step % kStepsPerVisit == 0) visit(dual.round());
    }
    dual.restore(ascent.best());
  }

  /// Makes `values` (indices into `live`) the incumbent if it is better.
  void offer(const LiveValues& live, const std::vector<std::int32_t>& values) {
    Assignment assignment(values.size());
    for (std::size_t v = 0; v < values.size(); ++v) assignment[v] = live[v][ix(values[v])];
    roundings_.push_back(assignment);
    if (roundings_.size() > kRoundings) roundings_.pop_front();
    const Cost cost = evaluate(net(), assignment);
    if (cost >= best_) return;
    best_ = cost;
    incumbent_ = assignment;
    solution_.assignment = presolve_->restore(assignment);
    solution_.cost = add(cost, presolve_->constant());
  }

  void raise_bound(Cost bound) { bound_ = std::max(bound_, std::min(bound, best_)); }

  void report(const char* stage) {
    if (!progress_) return;
    Progress now;
    now.seconds = seconds_since(start_);
    now.cost = solution_.cost;
    now.bound = add(bound_, presolve_->constant());
    now.stage = stage;
    now.tasks_done = solution_.stats.tasks;
    now.tasks_total = tasks_total_;
    progress_(now);
  }

  Solution finish(Status status) {
    solution_.status = status;
    Stats& stats = solution_.stats;
    const double rest_s = seconds_since(start_) - stats.presolve_s - stats.bound_s;
    (stats.bound_s > 0 ? stats.search_s : stats.bound_s) += rest_s;
    const bool bounded = presolve_ && !presolve_->infeasible();
    solution_.bound = bounded ? add(bound_, presolve_->constant()) : 0;
    if (status == Status::kOptimal && options_.gap <= 0) solution_.bound = solution_.cost;
    return std::move(solution_);
  }

  const CostNetwork& network_;
  const Options& options_;
  Comm& comm_;
  const std::function<void(const Progress&)>& progress_;
  const Clock::time_point start_ = Clock::now();
  Deadline deadline_;
  BlockOptions block_options_;
  std::optional<Presolve> presolve_;
  std::deque<Assignment> roundings_;  // the last few, within the limit or not
  Solution solution_;
  Assignment incumbent_;    // in the reduced network
  Cost best_ = kForbidden;  // its cost there
  Cost bound_ = 0;          // of the reduced network
  std::int64_t tasks_total_ = 0;
  std::int32_t widest_ = -1;
};

}  // namespace

void Stats::add(const Stats& other) {
  presolve_s += other.presolve_s;
  bound_s += other.bound_s;
  search_s += other.search_s;
  variables = std::max(variables, other.variables);
  variables_after_presolve = std::max(variables_after_presolve, other.variables_after_presolve);
  values_after_fixing = std::max(values_after_fixing, other.values_after_fixing);
  segments = std::max(segments, other.segments);
  segment_classes = std::max(segment_classes, other.segment_classes);
  sweeps += other.sweeps;
  tasks += other.tasks;
  branch_nodes += other.branch_nodes;
}

int Options::num_threads() const { return threads > 0 ? threads : tbb::info::default_concurrency(); }

Solution solve(const CostNetwork& network, const Options& options, Comm& comm,
               const std::function<void(const Progress&)>& progress) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, ix(options.num_threads()));
  Timing& timing = comm.timing();
  if (comm.rank() != 0) {
    Solution solution;
    double search_s = 0;
    solution.status = serve(comm, [&](const std::string& task) {
      const Clock::time_point begin = Clock::now();
      std::string result = do_block_task(task);
      search_s += seconds_since(begin);
      return result;
    });
    timing.add(Phase::kSearch, search_s);
    return solution;
  }
  const double waited_before = timing.in(Phase::kWait);
  Solution solution = Solver(network, options, comm, progress).run();
  const double waited_s = timing.in(Phase::kWait)-waited_before;
  timing.add(Phase::kPresolve, solution.stats.presolve_s);
  timing.add(Phase::kBound, solution.stats.bound_s);
  timing.add(Phase::kSearch, solution.stats.search_s - waited_s);
  timing.branch_nodes += solution.stats.branch_nodes;
  dismiss(solution.status, comm);
  return solution;
}

}  // namespace autopar::engine
