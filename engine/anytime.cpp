#include "engine/anytime.h"

#include <tbb/global_control.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "engine/branch_and_bound.h"
#include "engine/comm.h"
#include "engine/greedy.h"
#include "engine/improvers.h"
#include "engine/index.h"
#include "engine/messages.h"
#include "engine/price_ascent.h"

namespace autopar::engine {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = NewsMessage::Kind;

constexpr int kFirstGuide = 20;                         // steps before neighbourhoods can be searched
constexpr int kStepsPerGuide = 50;                      // then the guide is renewed so often
constexpr int kFirstRoundings[] = {1, 5, kFirstGuide};  // steps: by then, if need be, roundings at higher prices
constexpr int kRaises = 8;                              // of the prices, for such a rounding
constexpr double kRaise = 4;
constexpr double kGuideGap = 3;      // times the gap, up to which reduced costs are of interest
constexpr double kSmallGap = 0.002;  // of the cost, that a guide allows at least
constexpr double kShrinking = 0.9;   // share of values left, below which a stage gives way to the next
constexpr double kShrinkingWhenSmall = 0.985;
constexpr std::int64_t kSmallStage = 30'000;  // values of a stage that is searched to the end (BranchAndBound)
constexpr double kLittleRise = 0.02;          // of the gap, below which cuts are in vain
constexpr double kMoment = 0.4;               // seconds of work
constexpr double kWideGap = 0.02;             // of the cost, for joins that cost much
constexpr double kMuchShrinking = 0.5;        // and below which also a search to the end starts again
constexpr BlockOptions kSmallBlocks{20'000, 160'000, 0};  // that such a search eliminates
constexpr std::chrono::milliseconds kSlice{20};
constexpr double kPresolveShare = 0.6;  // of the time limit: solutions have to be found in what is left

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

double seconds_since(Clock::time_point start) { return seconds_between(start, Clock::now()); }

/// How much of the time limit presolve may take, in work.
std::int64_t presolve_work(const AnytimeOptions& options) {
  const double spent_s = options.is_deterministic ? 0 : options.spent_s;
  const double left_s = std::max(options.search.time_limit_s - spent_s, 0.0);
  return static_cast<std::int64_t>(std::min(kPresolveShare * kWorkPerSecond * left_s, 1e18));
}

/// The most that an assignment can cost.
Cost most_of(const CostNetwork& network) {
  const auto largest = [](const std::vector<Cost>& costs) {
    Cost most = 0;
    for (Cost cost : costs) most = cost < kForbidden ? std::max(most, cost) : most;
    return most;
  };
  std::vector<Cost> of_table;
  for (std::size_t t = 0; t < network.tables.size(); ++t) of_table.push_back(largest(network.tables[t].costs));
  Cost most = 0;
  for (std::int32_t v = 0; v < network.num_variables(); ++v) most = add(most, largest(network.domain(v).costs));
  for (const Edge& edge : network.edges) most = add(most, of_table[ix(edge.table)]);
  return most;
}

/// What every rank does: follow the news, look for assignments.
class Member {
 public:
  Member(const CostNetwork& network, const AnytimeOptions& options, Comm& comm)
      : options_(options), comm_(comm), network_(network), board_(network) {
    const double limit_s = options.search.time_limit_s;
    if (limit_s <= 0) return;
    if (!options.is_deterministic) deadline_ = Deadline::after(start_, limit_s - options.spent_s);
  }

 protected:
  void go_to_first_stage() {
    PresolveSteps steps = options_.presolve;
    if (comm_.size() == 1) {
      steps.deadline = deadline_.at == Clock::time_point::max()
                           ? deadline_
                           : Deadline::after(start_, kPresolveShare * seconds_between(start_, deadline_.at));
    }
    stage_ = std::make_shared<const Stage>(network_, steps);
    if (!stage_->infeasible()) board_.set_stage(stage_);
  }

  /// `how`: live values, cuts or joins.
  template <class How>
  void go_to_stage(const How& how) {
    stage_ = std::make_shared<const Stage>(*stage_, how, options_.presolve);
    if (!stage_->infeasible()) board_.set_stage(stage_);
  }

  const AnytimeOptions& options_;
  Comm& comm_;
  const CostNetwork& network_;
  Clock::time_point start_ = Clock::now();
  Deadline deadline_;
  Board board_;
  std::shared_ptr<const Stage> stage_;
};

/// Ranks other than 0.
class Follower : Member {
 public:
  using Member::Member;

  Status run() {
    go_to_first_stage();
    const auto seed = static_cast<std::uint32_t>(100 * comm_.rank());
    std::optional<ImproverThreads> threads;
    std::optional<Improver> own;
    if (options_.is_deterministic) {
      // Rank 0 works alone.
    } else if (options_.search.num_threads() > 1) {
      threads.emplace(board_, options_.search.num_threads(), seed, deadline_);
    } else {
      own.emplace(board_, seed, deadline_);
    }
    while (true) {
      while (const std::optional<Comm::Message> message = comm_.try_receive()) {
        NewsMessage news = unpack_news(message->bytes);
        if (news.kind == Kind::kEnd) {
          comm_.send(0, pack(NewsMessage()));
          return news.status;
        }
        hear(std::move(news));
      }
      tell();
      if (deadline_.passed() || !own || !own->step()) std::this_thread::sleep_for(kSlice);
    }
  }

 private:
  void hear(NewsMessage news) {
    if (news.kind == Kind::kPart) go_to_stage(news.live);
    if (news.kind == Kind::kCut) go_to_stage(news.cuts);
    if (news.kind == Kind::kJoin) go_to_stage(news.joins);
    if (news.kind == Kind::kGuide) board_.set_guide(std::make_shared<const Guide>(std::move(news.guide)));
    if (news.kind == Kind::kBest && board_.offer(news.assignment)) told_ = board_.state().cost;
  }

  void tell() {
    const Board::State state = board_.state();
    if (state.cost >= told_) return;
    told_ = state.cost;
    NewsMessage news;
    news.kind = Kind::kBest;
    news.assignment = *state.best;
    comm_.send(0, pack(news));
  }

  Cost told_ = kForbidden;
};

/// The ascent of a stage's bound.
struct Ascent {
  std::shared_ptr<const Stage> stage;
  Dual dual;
  PriceAscent prices;
  int num_steps = 0;

  Ascent(std::shared_ptr<const Stage> of, const std::vector<double>& from)
      : stage(std::move(of)), dual(stage->core()), prices(dual, from) {}
  /// In costs of the first network.
  Cost bound() const { return prices.bound() + stage->constant(); }
};

/// Rank 0: raises the bound, decides where to go on.
class Leader : Member {
 public:
  Leader(const CostNetwork& network, const AnytimeOptions& options, Comm& comm,
         const std::function<void(const Progress&)>& progress)
      : Member(network, options, comm), progress_(progress), most_(most_of(network)) {
    solution_.stats.variables = network.num_variables();
  }

  Solution run() {
    if (deadline_.passed()) return finish(Status::kNoSolution);
    go_to_first_stage();
    solution_.stats.presolve = stage_->counts();
    solution_.stats.presolve_s = seconds_since(start_);
    if (stage_->infeasible()) return finish(Status::kInfeasible);
    if (settle()) return finish(status());
    solution_.stats.variables_after_presolve = stage_->network().num_variables();
    bound_ = stage_->constant();
    if (!options_.is_deterministic) {
      raise_bound(options_.known_bound);
      if (!options_.known.empty()) board_.offer(options_.known);
    }
    std::optional<ImproverThreads> threads;
    if (!options_.is_deterministic && options_.search.num_threads() > 1)
      threads.emplace(board_, options_.search.num_threads() - 1, 1, deadline_);
    own_.emplace(board_, 0, deadline_);
    start_ascent({});
    while (!is_over()) {
      listen();
      if (is_ascending()) {
        ascend();
        // Alone, this thread does both in turn.
        const bool is_alone = !threads && comm_.size() == 1;
        while ((is_alone || options_.is_deterministic) && own_->work() < ascent_work_ && !is_over() && own_->step()) {
        }
      } else if (may_shrink()) {
        if (!shrink()) break;
      } else if (may_search()) {
        if (!search_to_the_end()) break;
      } else if (may_cut()) {
        cut();
      } else if (may_join()) {
        if (!join()) break;
      } else if (stage_->num_values() > kSmallStage) {
        own_->step();
      } else if (!search_to_the_end()) {
        break;
      }
      report();
    }
    return finish(status());
  }

 private:
  Cost best() const { return board_.state().cost; }
  Cost target(const Stage& stage) const {  // in costs of its core
    const Cost cost = best();
    return cost >= kForbidden ? kForbidden : cost - stage.constant();
  }
  Cost target() const { return target(*stage_); }

  bool closed() const {
    const Cost cost = best();
    if (cost >= kForbidden) return false;
    return static_cast<double>(cost - bound_) <= options_.search.gap * static_cast<double>(std::max<Cost>(cost, 1));
  }

  bool is_over() const {
    if (closed() || bound_ >= kForbidden || deadline_.passed()) return true;
    if (!options_.is_deterministic || options_.search.time_limit_s <= 0) return false;
    return static_cast<double>(ascent_work_ + search_work_ + own_->work()) >
           kWorkPerSecond * options_.search.time_limit_s;
  }

  Status status() const {
    if (best() < kForbidden) return closed() ? Status::kOptimal : Status::kLimitReached;
    return bound_ >= kForbidden ? Status::kInfeasible : Status::kNoSolution;
  }

  void start_ascent(const std::vector<double>& prices) {
    ascent_.reset();
    ascent_ = std::make_unique<Ascent>(stage_, prices);
    tree_.reset();
  }

  bool is_ascending() const { return trial_ || !ascent_->prices.is_done(); }

  void ascend() {
    const Clock::time_point until = Clock::now() + kSlice;
    do {
      step(trial_ ? *trial_ : *ascent_);
    } while (is_ascending() && !options_.is_deterministic && Clock::now() < until);
    solution_.stats.bound_s = seconds_since(start_) - solution_.stats.presolve_s;
  }

  void step(Ascent& ascent) {
    ascent.prices.step(target(*ascent.stage));
    ++ascent.num_steps;
    ++solution_.stats.sweeps;
    ascent_work_ += 4 * ascent.stage->core().table_entries() + 1;
    raise_bound(ascent.bound());
    const bool is_done = ascent.prices.is_done();
    if (&ascent == trial_.get()) {
      end_trial(is_done);
      return;
    }
    const bool is_guide_due = ascent.num_steps == kFirstGuide || ascent.num_steps % kStepsPerGuide == 0 || is_done;
    const bool is_early = std::ranges::find(kFirstRoundings, ascent.num_steps) != std::end(kFirstRoundings);
    if (best() >= kForbidden && (is_early || is_guide_due)) round_at_higher_prices();
    if (is_guide_due) guide();
  }

  /// For a first assignment, which may be far from the best: the more usage costs, the more likely a rounding fits.
  void round_at_higher_prices() {
    const Stage& stage = *ascent_->stage;
    Dual dual = ascent_->prices.best();
    std::vector<double> prices = ascent_->prices.prices();
    for (int raise = 0; raise <= kRaises && best() >= kForbidden && !deadline_.passed(); ++raise) {
      board_.offer(stage.restore(dual.round()));
      if (prices.empty()) return;
      for (double& price : prices) price *= kRaise;
      dual.set_prices(in_integers(prices));
      dual.sweep(Precision::kCoarse);
      ascent_work_ += 4 * stage.core().table_entries();
    }
  }

  void raise_bound(Cost bound) {
    // What fits costs less. Prices of a limit that nothing keeps to grow for ever.
    if (bound > most_) bound = kForbidden;
    bound_ = std::max(bound_, std::min(bound, best()));
  }

  void guide() {
    auto guide = std::make_shared<Guide>();
    const Dual& dual = ascent_->prices.best();
    guide->prices = ascent_->prices.prices();
    guide->reduced_costs = dual.reduced_costs();
    guide->bound = dual.bound();
    guide->rounding = dual.round();
    const double least = kSmallGap * static_cast<double>(std::abs(dual.bound()));
    const double gap = target() >= kForbidden ? 10 * least : static_cast<double>(target() - dual.bound());
    guide->gap = static_cast<Cost>(std::max(kGuideGap * gap, least)) + 1;
    NewsMessage news;
    news.kind = Kind::kGuide;
    if (comm_.size() > 1) news.guide = *guide;
    tell_all(news);
    board_.set_guide(std::move(guide));
  }

  /// Looked at again only when the best has changed.
  bool may_shrink() {
    const Cost cost = best();
    if (cost >= kForbidden || cost == shrunk_at_) return false;
    shrunk_at_ = cost;
    live_ = fixed(ascent_->prices.best(), all_values(stage_->network()), target());  // the best one's stay
    std::int64_t count = 0;
    for (const std::vector<std::int32_t>& values : live_) count += static_cast<std::int64_t>(values.size());
    const double share = static_cast<double>(count) / static_cast<double>(stage_->num_values());
    if (tree_) return share < kMuchShrinking;
    return share < (stage_->num_values() > kSmallStage ? kShrinking : kShrinkingWhenSmall);
  }

  /// Returns false if nothing is left to be searched.
  bool shrink() {
    NewsMessage news;
    news.kind = Kind::kPart;
    news.live = live_;
    tell_all(news);
    return start_stage(live_);
  }

  /// For about as long as the stage's bound took, and a moment. If that was not long enough, cuts and joins may make a
  /// stage that it is for.
  bool may_search() const {
    if (best() >= kForbidden || stage_->num_values() > kSmallStage) return false;
    const std::size_t of_bound = 4 * stage_->core().table_entries() * ix(ascent_->num_steps);
    return !tree_ || static_cast<double>(tree_->work()) < static_cast<double>(of_bound) + kMoment * kWorkPerSecond;
  }

  /// Once per stage, and again when cuts have made one.
  bool may_cut() {
    if (has_cut_ || best() >= kForbidden) return false;
    has_cut_ = true;
    cuts_ = choose_cuts(ascent_->prices.best());
    return !cuts_.empty();
  }

  /// What cuts bring is seen when prices have been found anew, from nothing: those that were best without them keep
  /// theirs at nothing. Until the bound is above what it was, all others go on as before.
  void cut() {
    auto stage = std::make_shared<const Stage>(*stage_, cuts_, options_.presolve);
    if (!stage->infeasible() && stage->network().num_variables() > 0) {
      trial_ = std::make_unique<Ascent>(std::move(stage), std::vector<double>());
    }
  }

  void end_trial(bool is_done) {
    const double gap = static_cast<double>(best() - ascent_->bound());
    if (static_cast<double>(trial_->bound() - ascent_->bound()) > kLittleRise * gap) {
      NewsMessage news;
      news.kind = Kind::kCut;
      news.cuts = cuts_;
      tell_all(news);
      ascent_ = std::move(trial_);
      tree_.reset();
      stage_ = ascent_->stage;
      board_.set_stage(stage_);
      forget_tries();
      guide();
    } else if (is_done) {
      trial_.reset();
    }
  }

  /// Once per stage.
  bool may_join() {
    if (has_joined_ || best() >= kForbidden) return false;
    has_joined_ = true;
    const Dual& dual = ascent_->prices.best();
    const Cost gap = target() - dual.bound();
    joins_ = choose_joins(dual, gap);
    const bool is_wide = static_cast<double>(gap) > kWideGap * static_cast<double>(std::abs(best()));
    const bool is_small = stage_->num_values() <= kSmallStage;
    if (joins_.empty() && is_wide && is_small) joins_ = choose_joins_for_elimination(dual, gap);
    return !joins_.empty();
  }

  bool join() {
    NewsMessage news;
    news.kind = Kind::kJoin;
    news.joins = joins_;
    tell_all(news);
    return start_stage(joins_);
  }

  template <class How>
  bool start_stage(const How& how) {
    const std::shared_ptr<const Stage> before = stage_;
    go_to_stage(how);
    forget_tries();
    solution_.stats.values_after_fixing = stage_->infeasible() ? 0 : stage_->num_values();
    if (settle()) return false;
    start_ascent(stage_->prices_from(*before, ascent_->prices.prices()));
    return true;
  }

  /// What was tried on the stage before.
  void forget_tries() {
    shrunk_at_ = kForbidden;
    has_cut_ = false;
    has_joined_ = false;
  }

  /// Whether presolve has left nothing to be searched: then the best is the optimum.
  bool settle() {
    if (!stage_->infeasible() && stage_->network().num_variables() > 0) return false;
    if (!stage_->infeasible()) board_.offer(stage_->restore({}));
    bound_ = best();
    return true;
  }

  /// A round of the search for an assignment that is better than the best. Returns false if there is none any more.
  bool search_to_the_end() {
    if (!tree_) {
      Part root;
      root.live = all_values(stage_->network());
      root.core = std::make_unique<const Core>(stage_->network(), root.live);
      root.dual = std::make_unique<Dual>(*root.core);
      root.dual->restore(ascent_->prices.best());
      tree_.emplace(stage_->network(), std::move(root), kSmallBlocks);
    }
    const std::int64_t nodes_before = tree_->num_nodes();
    const std::size_t work_before = tree_->work();
    tree_->search(target(), deadline_);
    solution_.stats.branch_nodes += tree_->num_nodes() - nodes_before;
    search_work_ += tree_->work() - work_before;
    if (tree_->best_cost() < target()) board_.offer(stage_->restore(tree_->best()));
    if (tree_->is_done()) {
      bound_ = best();
      return false;
    }
    raise_bound(add(tree_->bound(), stage_->constant()));
    return true;
  }

  void listen() {
    while (const std::optional<Comm::Message> message = comm_.try_receive()) {
      const NewsMessage news = unpack_news(message->bytes);
      board_.offer(news.assignment);
    }
    const Board::State state = board_.state();
    if (state.cost >= told_ || comm_.size() == 1) return;
    told_ = state.cost;
    NewsMessage news;
    news.kind = Kind::kBest;
    news.assignment = *state.best;
    tell_all(news);
  }

  void tell_all(const NewsMessage& news) {
    if (comm_.size() == 1) return;
    const std::string bytes = pack(news);
    for (int rank = 1; rank < comm_.size(); ++rank) comm_.send(rank, bytes);
  }

  void report() {
    if (!progress_) return;
    Progress now;
    now.seconds = seconds_since(start_);
    now.cost = best();
    now.bound = bound_;
    now.stage = is_ascending() ? "bound" : "search";
    now.assignment = board_.state().best;
    progress_(now);
  }

  /// Whatever fits is better than nothing.
  void offer_at_once() {
    const CostNetwork& network = stage_ ? stage_->network() : network_;
    for (const bool by_usage : {false, true}) {
      if (best() < kForbidden) return;
      const Assignment greedy = greedy_assignment(network, by_usage);
      board_.offer(stage_ ? stage_->restore(greedy) : greedy);
    }
  }

  Solution finish(Status status) {
    if (status == Status::kNoSolution) offer_at_once();
    board_.stop();
    NewsMessage news;
    news.status = status;
    tell_all(news);
    // Until all others have answered their news may be under way, and a rank cannot leave before these are received.
    for (int left = comm_.size() - 1; left > 0;) {
      const NewsMessage answer = unpack_news(comm_.receive().bytes);
      if (answer.kind == Kind::kEnd) {
        --left;
      } else {
        board_.offer(answer.assignment);
      }
    }
    if (status == Status::kNoSolution && best() < kForbidden) status = Status::kLimitReached;
    const Board::State state = board_.state();
    if (state.best) solution_.assignment = *state.best;
    solution_.status = status;
    solution_.cost = state.cost;
    solution_.bound = status == Status::kInfeasible ? 0 : std::min(bound_, state.cost);
    solution_.stats.search_s = seconds_since(start_) - solution_.stats.bound_s - solution_.stats.presolve_s;
    return std::move(solution_);
  }

  const std::function<void(const Progress&)>& progress_;
  const Cost most_;
  Solution solution_;
  std::unique_ptr<Ascent> ascent_;
  std::unique_ptr<Ascent> trial_;  // with cuts_
  std::optional<BranchAndBound> tree_;
  std::optional<Improver> own_;
  LiveValues live_;
  std::vector<Cut> cuts_;
  bool has_cut_ = false;
  std::vector<Join> joins_;
  bool has_joined_ = false;
  Cost bound_ = 0;  // in costs of the first network
  Cost told_ = kForbidden;
  Cost shrunk_at_ = kForbidden;
  std::size_t ascent_work_ = 0;
  std::size_t search_work_ = 0;
};

}  // namespace

Solution solve_anytime(const CostNetwork& network, const AnytimeOptions& given, Comm& comm,
                       const std::function<void(const Progress&)>& progress) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, ix(given.search.num_threads()));
  AnytimeOptions options = given;
  if (given.search.time_limit_s > 0) options.presolve.max_work = presolve_work(given);
  if (comm.size() > 1) {
    // Presolve has to stop at the same place on all ranks, and only rank 0 knows what time was spent before.
    std::string work = std::to_string(options.presolve.max_work);
    comm.broadcast(work);
    options.presolve.max_work = std::stoll(work);
    std::string bytes = comm.rank() == 0 ? pack(network) : std::string();
    comm.broadcast(bytes);
    if (comm.rank() != 0) {
      const CostNetwork received = unpack_network(bytes);
      Solution solution;
      solution.status = Follower(received, options, comm).run();
      return solution;
    }
  }
  return Leader(network, options, comm, progress).run();
}

}  // namespace autopar::engine
