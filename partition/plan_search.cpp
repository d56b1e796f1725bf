#include "partition/plan_search.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace autopar::partition {
namespace {

using Clock = std::chrono::steady_clock;

/// At most so many time points are added at once, and no two nearer than this part of all.
constexpr std::size_t kMostNewPoints = 3;
constexpr std::int32_t kFewestApart = 16;

/// What rank 0 tells the others before each search: help, or leave.
struct Call {
  bool leave = true;
  engine::Options options = {};
};
static_assert(std::is_trivially_copyable_v<Call>);

Call share(engine::Comm& comm, const Call& call) {
  std::string bytes(sizeof(Call), '\0');
  std::memcpy(bytes.data(), &call, sizeof(Call));
  comm.broadcast(bytes);
  if (bytes.size() != sizeof(Call)) throw std::logic_error("rank 0 runs another version of the program");
  Call shared;
  std::memcpy(&shared, bytes.data(), sizeof(Call));
  return shared;
}

/// The highest peaks of `memory` above `limit`, apart from each other and not among `known`, added to these.
std::vector<std::int32_t> with_peaks(std::vector<std::int32_t> known, const HeldMemory& memory, std::int64_t limit) {
  const auto num_times = static_cast<std::int32_t>(memory.bytes.size());
  std::vector<std::int32_t> found;
  for (std::size_t i = 0; i < kMostNewPoints; ++i) {
    std::int32_t highest = -1;
    for (std::int32_t time = 0; time < num_times; ++time) {
      const std::int64_t bytes = memory.bytes[static_cast<std::size_t>(time)];
      if (bytes <= limit || (highest >= 0 && bytes <= memory.bytes[static_cast<std::size_t>(highest)])) continue;
      const auto is_near = [&](std::int32_t other) { return std::abs(other - time) * kFewestApart < num_times; };
      if (std::none_of(found.begin(), found.end(), is_near)) highest = time;
    }
    if (highest < 0) break;
    found.push_back(highest);
  }
  const std::size_t before = known.size();
  for (const std::int32_t time : found) {
    if (std::find(known.begin(), known.end(), time) == known.end()) known.push_back(time);
  }
  if (known.size() == before) throw std::logic_error("a plan exceeds the memory limit where the search looked at it");
  std::sort(known.begin(), known.end());
  return known;
}

class PlanSearch {
 public:
  PlanSearch(const PlanSearchInput& input, const engine::Options& options, engine::Comm& comm,
             const std::function<void(const engine::Progress&)>& progress)
      : input_(input), options_(options), comm_(comm), progress_(progress) {}

  PlanSearchResult run() {
    ModelNetwork rebuilt;
    const ModelNetwork* model = &input_.first;
    while (true) {
      const engine::Solution found = solve(*model);
      note(found);
      if (found.assignment.empty()) return result(found.status);
      Plan plan = make_plan(input_.problem, input_.redistributor, *model, found.assignment);
      HeldMemory memory = held_memory(input_.problem, plan);
      const std::int64_t limit = input_.problem.pins.memory_limit_bytes;
      if (memory.peak_bytes() <= limit) {
        result_.plan = std::move(plan);
        result_.memory = std::move(memory);
        return result(found.status);
      }
      if (found.status == engine::Status::kLimitReached) return result(engine::Status::kNoSolution);
      result_.time_points = with_peaks(std::move(result_.time_points), memory, limit);
      rebuilt = build_network(input_.problem, input_.redistributor, result_.time_points);
      model = &rebuilt;
    }
  }

 private:
  engine::Solution solve(const ModelNetwork& model) {
    engine::Options options = options_;
    if (options.time_limit_s > 0) {
      const double gone = std::chrono::duration<double>(Clock::now() - start_).count();
      options.time_limit_s = std::max(options.time_limit_s - gone, 0.001);
    }
    share(comm_, {false, options});
    return engine::solve(input_.reprice ? input_.reprice(model.network) : model.network, options, comm_, progress_);
  }

  /// Keeps the best bound, and adds up what the searches took.
  void note(const engine::Solution& found) {
    engine::Stats& sum = result_.solution.stats;
    const engine::Cost bound = std::max(result_.solution.bound, found.bound);
    engine::Stats stats = found.stats;
    stats.presolve_s += sum.presolve_s;
    stats.bound_s += sum.bound_s;
    stats.search_s += sum.search_s;
    stats.sweeps += sum.sweeps;
    stats.tasks += sum.tasks;
    stats.branch_nodes += sum.branch_nodes;
    result_.solution = found;
    result_.solution.bound = bound;
    result_.solution.stats = stats;
  }

  PlanSearchResult result(engine::Status status) {
    share(comm_, {});
    result_.solution.status = status;
    return std::move(result_);
  }

  const PlanSearchInput& input_;
  const engine::Options& options_;
  engine::Comm& comm_;
  const std::function<void(const engine::Progress&)>& progress_;
  const Clock::time_point start_ = Clock::now();
  PlanSearchResult result_;
};

}  // namespace

PlanSearchResult search_plan(const PlanSearchInput& input, const engine::Options& options, engine::Comm& comm,
                             const std::function<void(const engine::Progress&)>& progress) {
  return PlanSearch(input, options, comm, progress).run();
}

void help_search_plan(engine::Comm& comm) {
  while (true) {
    const Call call = share(comm, {});
    if (call.leave) return;
    engine::solve({}, call.options, comm);
  }
}

}  // namespace autopar::partition
