#include "partition/shared_solver.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

namespace autopar::partition {
namespace {

using engine::Solution;
using engine::SolveRecord;
using engine::Status;

constexpr std::size_t kNarrowRows = std::size_t{1} << 14;

/// What rank 0 tells the others: help with a network, help with a round of tasks, or leave.
struct Call {
  enum class Kind : std::uint8_t { kSolve, kTasks, kLeave };
  Kind kind = Kind::kLeave;
  engine::Options options = {};  // kSolve
};

}  // namespace

engine::Options with_effort(engine::Options options, double gap, std::int64_t max_branch_nodes) {
  options.gap = std::max(options.gap, gap);
  options.max_rows = std::min(options.max_rows, kNarrowRows);
  options.max_branch_nodes = max_branch_nodes;
  return options;
}

SharedSolver::SharedSolver(const engine::Options& options, engine::Comm& comm,
                           std::function<void(const engine::Progress&)> progress)
    : options_(options), comm_(comm), progress_(std::move(progress)) {
  if (options.time_limit_s > 0) {
    deadline_ = engine::Deadline::after(std::chrono::steady_clock::now(), options.time_limit_s);
  }
}

Solution SharedSolver::solve(const engine::CostNetwork& network, engine::Options options) {
  trace_.clear();
  if (has_answer()) return answer(network);
  if (replays_) return {};
  return compute(network, options);
}

Solution SharedSolver::answer(const engine::CostNetwork& network) {
  const Solution& known = record_.entries[next_++].solution;
  const bool fits = known.assignment.empty() || (std::ssize(known.assignment) == network.num_variables() &&
                                                 engine::evaluate(network, known.assignment) == known.cost);
  if (!fits) throw std::logic_error("an earlier answer does not fit the network that is asked now");
  return known;
}

Solution SharedSolver::compute(const engine::CostNetwork& network, engine::Options options) {
  SolveRecord::Entry entry;
  entry.was_late = is_out_of_time();
  options.time_limit_s = deadline_.seconds_left();
  engine::share(comm_, Call{Call::Kind::kSolve, options});
  const double begin = seconds();
  entry.solution = engine::solve(network, options, comm_, [&](const engine::Progress& now) {
    trace_.push_back({begin + now.seconds, now.cost, now.bound});
    if (progress_) progress_(now);
  });
  trace_.push_back({seconds(), entry.solution.cost, entry.solution.bound});
  const Status status = entry.solution.status;
  entry.was_cut_short = is_out_of_time() && (status == Status::kLimitReached || status == Status::kNoSolution);
  if (cut_short_ && entry.was_cut_short) entry.solution = engine::better_of(std::move(entry.solution), *cut_short_);
  cut_short_.reset();
  record_.entries.push_back(entry);
  next_ = record_.entries.size();
  if (changed_) changed_(record_);
  return std::move(entry.solution);
}

double SharedSolver::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

bool SharedSolver::is_out_of_time() const {
  if (replays_) return has_answer() ? record_.entries[next_].was_late : record_.ended_late;
  return !has_answer() && deadline_.passed();
}

void SharedSolver::run(engine::TaskRound& round, const engine::Report& report) {
  engine::share(comm_, Call{Call::Kind::kTasks, options_});
  engine::run_on_all_ranks(round, deadline_, comm_, report);
  engine::dismiss(Status::kOptimal, comm_);
}

void SharedSolver::leave() { engine::share(comm_, Call{}); }

void SharedSolver::resume(SolveRecord record, std::function<void(const SolveRecord&)> changed) {
  const auto end = std::ranges::find_if(
      record.entries, [](const SolveRecord::Entry& entry) { return entry.was_late || entry.was_cut_short; });
  if (end != record.entries.end() && !end->was_late) cut_short_ = std::move(end->solution);
  record.entries.erase(end, record.entries.end());
  record_ = std::move(record);
  changed_ = std::move(changed);
}

void SharedSolver::replay(SolveRecord record) {
  record_ = std::move(record);
  replays_ = true;
}

SolveRecord SharedSolver::take_record() {
  record_.ended_late = is_out_of_time();
  return std::move(record_);
}

void help_solve(engine::Comm& comm, const engine::TaskFunction& function) {
  while (true) {
    const Call call = engine::share(comm, Call{});
    switch (call.kind) {
      case Call::Kind::kSolve:
        engine::solve({}, call.options, comm);
        break;
      case Call::Kind::kTasks:
        engine::serve(comm, function);
        break;
      case Call::Kind::kLeave:
        return;
    }
  }
}

}  // namespace autopar::partition
