#include "partition/shared_solver.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace autopar::partition {
namespace {

constexpr std::size_t kNarrowRows = std::size_t{1} << 14;

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

}  // namespace

engine::Options with_effort(engine::Options options, double gap, std::int64_t max_branch_nodes) {
  options.gap = std::max(options.gap, gap);
  options.max_rows = std::min(options.max_rows, kNarrowRows);
  options.max_branch_nodes = max_branch_nodes;
  return options;
}

SharedSolver::SharedSolver(const engine::Options& options, engine::Comm& comm,
                           std::function<void(const engine::Progress&)> progress)
    : options_(options), comm_(comm), progress_(std::move(progress)) {}

engine::Solution SharedSolver::solve(const engine::CostNetwork& network, engine::Options options) {
  options.time_limit_s = options_.time_limit_s > 0 ? std::max(seconds_left(), 0.001) : 0;
  share(comm_, {false, options});
  return engine::solve(network, options, comm_, progress_);
}

void SharedSolver::leave() { share(comm_, {}); }

double SharedSolver::seconds_left() const {
  const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - start_;
  return options_.time_limit_s - gone.count();
}

void help_solve(engine::Comm& comm) {
  while (true) {
    const Call call = share(comm, {});
    if (call.leave) return;
    engine::solve({}, call.options, comm);
  }
}

}  // namespace autopar::partition
