#include "engine/anytime.h"

#include <tbb/global_control.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "engine/branch_and_bound.h"
#include "engine/comm.h"
#include "engine/improvers.h"
#include "engine/index.h"
#include "engine/messages.h"
#include "engine/price_ascent.h"

namespace autopar::engine {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = NewsMessage::Kind;

constexpr int kFirstGuide = 20;               // steps before assignments can be looked for
constexpr int kStepsPerGuide = 50;            // then the guide is renewed so often
constexpr double kGuideGap = 3;               // times the gap, up to which reduced costs are of interest
constexpr double kSmallGap = 0.002;           // of the cost, that a guide allows at least
constexpr double kShrinking = 0.9;            // share of values left, below which a stage gives way to the next
constexpr std::int64_t kSmallStage = 20'000;  // values of a stage that is searched to the end (BranchAndBound)
constexpr double kWideGap = 0.02;             // of the cost, for joins that cost much
constexpr double kMuchShrinking = 0.5;        // and below which also a search to the end starts again
constexpr BlockOptions kSmallBlocks{20'000, 160'000, 0};  // that such a search eliminates
constexpr std::chrono::milliseconds kSlice{20};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// What every rank does: follow the news, look for assignments.
class Member {
 public:
  Member(const CostNetwork& network, const AnytimeOptions& options, Comm& comm)
      : options_(options), comm_(comm), board_(network) {
    if (options.search.time_limit_s > 0 && !options.is_deterministic) {
      deadline_ = Deadline::after(start_, options.search.time_limit_s);
    }
    stage_ = std::make_shared<const Stage>(network, options.presolve);
    if (!stage_->infeasible()) board_.set_stage(stage_);
  }

 protected:
  /// `how`: live values, or joins.
  template <class How>
  void go_to_stage(How how) {
    stage_ = std::make_shared<const Stage>(stage_, std::move(how), options_.presolve);
    if (!stage_->infeasible()) board_.set_stage(stage_);
  }

  const AnytimeOptions& options_;
  Comm& comm_;
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
        if (news.kind == Kind::kEnd) return news.status;
        hear(std::move(news));
      }
      tell();
      if (deadline_.passed() || !own || !own->step()) std::this_thread::sleep_for(kSlice);
    }
  }

 private:
  void hear(NewsMessage news) {
    if (news.kind == Kind::kPart) go_to_stage(std::move(news.live));
    if (news.kind == Kind::kJoin) go_to_stage(std::move(news.joins));
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

/// Rank 0: raises the bound, decides where to go on.
class Leader : Member {
 public:
  Leader(const CostNetwork& network, const AnytimeOptions& options, Comm& comm,
         const std::function<void(const Progress&)>& progress)
      : Member(network, options, comm), progress_(progress) {
    solution_.stats.variables = network.num_variables();
    solution_.stats.presolve = stage_->counts();
    solution_.stats.presolve_s = seconds_since(start_);
  }

  Solution run() {
    if (stage_->infeasible()) return finish(Status::kInfeasible);
    if (settle()) return finish(status());
    solution_.stats.variables_after_presolve = stage_->network().num_variables();
    bound_ = stage_->constant();
    std::optional<ImproverThreads> threads;
    if (!options_.is_deterministic && options_.search.num_threads() > 1)
      threads.emplace(board_, options_.search.num_threads() - 1, 1, deadline_);
    own_.emplace(board_, 0, deadline_);
    start_ascent({});
    while (!is_over()) {
      listen();
      if (ascent_->is_done()) {
        if (may_shrink()) {
          if (!shrink()) break;
          continue;
        }
        if (may_join()) {
          if (!join()) break;
          continue;
        }
        if (stage_->num_values() > kSmallStage) {
          own_->step();
        } else if (!search_to_the_end()) {
          break;
        }
      } else {
        ascend();
        // Alone, this thread does both in turn.
        const bool is_alone = !threads && comm_.size() == 1;
        while ((is_alone || options_.is_deterministic) && own_->work() < ascent_work_ && !is_over() && own_->step()) {
        }
      }
      report();
    }
    return finish(status());
  }

 private:
  Cost best() const { return board_.state().cost; }
  Cost target() const {  // in costs of the stage's core
    const Cost cost = best();
    return cost >= kForbidden ? kForbidden : cost - stage_->constant();
  }

  bool closed() const {
    const Cost cost = best();
    if (cost >= kForbidden) return false;
    return static_cast<double>(cost - bound_) <= options_.search.gap * static_cast<double>(std::max<Cost>(cost, 1));
  }

  bool is_over() const {
    if (closed() || deadline_.passed()) return true;
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
    dual_ = std::make_unique<Dual>(stage_->core());
    ascent_.emplace(*dual_, prices);
    tree_.reset();
    num_steps_ = 0;
    table_entries_ = 0;
    for (const CoreEdge& edge : stage_->core().edges()) table_entries_ += edge.table->by_row.size();
  }

  void ascend() {
    const Clock::time_point until = Clock::now() + kSlice;
    do {
      ascent_->step(target());
      ++num_steps_;
      ++solution_.stats.sweeps;
      ascent_work_ += 4 * table_entries_ + 1;
      if (num_steps_ == kFirstGuide || num_steps_ % kStepsPerGuide == 0 || ascent_->is_done()) guide();
    } while (!ascent_->is_done() && !options_.is_deterministic && Clock::now() < until);
    raise_bound(ascent_->bound() + stage_->constant());
    solution_.stats.bound_s = seconds_since(start_) - solution_.stats.presolve_s;
  }

  void raise_bound(Cost bound) { bound_ = std::max(bound_, std::min(bound, best())); }

  void guide() {
    auto guide = std::make_shared<Guide>();
    guide->prices = ascent_->prices();
    guide->reduced_costs = ascent_->best().reduced_costs();
    guide->bound = ascent_->bound();
    guide->rounding = ascent_->best().round();
    const double least = kSmallGap * static_cast<double>(std::abs(ascent_->bound()));
    const double gap = target() >= kForbidden ? 10 * least : static_cast<double>(target() - ascent_->bound());
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
    live_ = fixed(ascent_->best(), all_values(stage_->network()), target());  // the best one's stay
    std::int64_t count = 0;
    for (const std::vector<std::int32_t>& values : live_) count += static_cast<std::int64_t>(values.size());
    return static_cast<double>(count) <
           (tree_ ? kMuchShrinking : kShrinking) * static_cast<double>(stage_->num_values());
  }

  /// Returns false if nothing is left to be searched.
  bool shrink() {
    NewsMessage news;
    news.kind = Kind::kPart;
    news.live = live_;
    tell_all(news);
    return start_stage(live_);
  }

  /// Once per stage.
  bool may_join() {
    if (tree_ || has_joined_ || best() >= kForbidden) return false;
    has_joined_ = true;
    const Cost gap = target() - ascent_->bound();
    joins_ = choose_joins(ascent_->best(), gap);
    const bool is_wide = static_cast<double>(gap) > kWideGap * static_cast<double>(std::abs(best()));
    const bool is_small = stage_->num_values() <= kSmallStage;
    if (joins_.empty() && is_wide && is_small) joins_ = choose_joins_for_elimination(ascent_->best(), gap);
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
    shrunk_at_ = kForbidden;
    has_joined_ = false;
    solution_.stats.values_after_fixing = stage_->infeasible() ? 0 : stage_->num_values();
    if (settle()) return false;
    start_ascent(stage_->prices_from(*before, ascent_->prices()));
    return true;
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
      root.dual->restore(ascent_->best());
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
    now.stage = ascent_->is_done() ? "search" : "bound";
    progress_(now);
  }

  Solution finish(Status status) {
    board_.stop();
    listen();
    NewsMessage news;
    news.status = status;
    tell_all(news);
    const Board::State state = board_.state();
    if (state.best) solution_.assignment = *state.best;
    solution_.status = status;
    solution_.cost = state.cost;
    solution_.bound = status == Status::kInfeasible ? 0 : std::min(bound_, state.cost);
    solution_.stats.search_s = seconds_since(start_) - solution_.stats.bound_s - solution_.stats.presolve_s;
    return std::move(solution_);
  }

  const std::function<void(const Progress&)>& progress_;
  Solution solution_;
  std::unique_ptr<Dual> dual_;
  std::optional<PriceAscent> ascent_;
  std::optional<BranchAndBound> tree_;
  std::optional<Improver> own_;
  LiveValues live_;
  std::vector<Join> joins_;
  bool has_joined_ = false;
  Cost bound_ = 0;  // in costs of the first network
  Cost told_ = kForbidden;
  Cost shrunk_at_ = kForbidden;
  int num_steps_ = 0;
  std::size_t table_entries_ = 0;
  std::size_t ascent_work_ = 0;
  std::size_t search_work_ = 0;
};

}  // namespace

Solution solve_anytime(const CostNetwork& network, const AnytimeOptions& options, Comm& comm,
                       const std::function<void(const Progress&)>& progress) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, ix(options.search.num_threads()));
  if (comm.size() > 1) {
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
