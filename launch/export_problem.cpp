#include "launch/export_problem.h"

#include <numeric>
#include <vector>

#include "costs/redistribute.h"
#include "io/write_problem.h"
#include "partition/build_network.h"
#include "partition/holdings.h"
#include "partition/variant.h"

namespace autopar::launch {

std::string exported_problem(const Task& task) {
  partition::Problem problem = task.problem;
  problem.has_overlap = false;
  std::vector<char> again = problem.pins.recompute;
  again.resize(problem.graph.nodes.size(), 0);
  const partition::Variant variant(problem, again, true);
  const partition::Problem& repeated = variant.repeated.problem;
  partition::BuildOptions options;
  options.time_points.resize(static_cast<std::size_t>(partition::Timeline::of(repeated.graph).num_times()));
  std::iota(options.time_points.begin(), options.time_points.end(), 0);
  const costs::Redistributor redistributor(problem.cluster, problem.mesh);
  const partition::ModelNetwork model = partition::build_network(repeated, redistributor, options);
  return io::format_problem(problem.graph.name, model.network);
}

}  // namespace autopar::launch
