#include "launch/export_problem.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "costs/redistribute.h"
#include "io/write_problem.h"
#include "partition/build_network.h"
#include "partition/holdings.h"
#include "partition/variant.h"

namespace autopar::launch {
namespace {

/// Of the time points that `network` looks at, those where some choice of strategies exceeds the limit. At the others
/// memory decides nothing.
std::vector<std::int32_t> points_that_matter(const engine::CostNetwork& network,
                                             const std::vector<std::int32_t>& points) {
  std::vector<std::int64_t> change(points.size() + 1, 0);
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    const std::vector<engine::Span>& spans = network.variables[static_cast<std::size_t>(v)].spans;
    for (std::size_t s = 0; s < spans.size(); ++s) {
      const std::vector<std::int64_t>& usage = network.domain(v).usage[s];
      const std::int64_t most = *std::max_element(usage.begin(), usage.end());
      change[static_cast<std::size_t>(spans[s].start)] += most;
      change[static_cast<std::size_t>(spans[s].end)] -= most;
    }
  }
  std::vector<std::int32_t> matter;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    most += change[i];
    if (most > network.usage_limit) matter.push_back(points[i]);
  }
  return matter;
}

}  // namespace

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
  partition::ModelNetwork model = partition::build_network(repeated, redistributor, options);
  options.time_points = points_that_matter(model.network, options.time_points);
  model = partition::build_network(repeated, redistributor, options);
  return io::format_problem(problem.graph.name, model.network);
}

}  // namespace autopar::launch
