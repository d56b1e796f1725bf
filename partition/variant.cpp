#include "partition/variant.h"

#include <algorithm>
#include <cstddef>

#include "engine/index.h"

namespace autopar::partition {
namespace {

using engine::ix;

}  // namespace

Variant::Variant(const Problem& problem, const std::vector<char>& which, bool reads_again)
    : repeated(with_repeated(problem, which, reads_again)), timeline_(Timeline::of(repeated.problem.graph)) {
  id_of_.resize(repeated.problem.graph.nodes.size());
  for (std::size_t i = 0; i < repeated.index_of.size(); ++i) {
    const auto node = static_cast<std::int32_t>(i);
    id_of_[ix(repeated.index_of[i])] = {node, false, 0};
    // A view of the original graph may run for another: then it is known by itself.
    if (const std::int32_t again = repeated.again_of[i]; again >= 0 && repeated.is_optional[ix(again)] != 0) {
      id_of_[ix(again)] = {node, true, 0};
    }
  }
}

std::vector<std::int32_t> Variant::times(const PointIds& ids) const {
  std::vector<std::int32_t> times;
  for (const PointId& id : ids) {
    if (id.node < 0) {
      times.push_back(timeline_.num_times() - 1);
      continue;
    }
    const std::int32_t node = id.again ? repeated.again_of[ix(id.node)] : repeated.index_of[ix(id.node)];
    if (node >= 0) times.push_back(timeline_.first_time[ix(node)] + id.place);
  }
  std::sort(times.begin(), times.end());
  return times;
}

PointId Variant::id(std::int32_t time) const {
  const std::int32_t node = timeline_.node_of(time);
  if (node < 0) return {};
  PointId id = id_of_[ix(node)];
  id.place = time - timeline_.first_time[ix(node)];
  return id;
}

Offers::Offers(const Problem& problem)
    : is_offer_(repeatable_nodes(problem.graph)), variant_(problem, is_offer_, false) {}

ModelNetwork Offers::network(const costs::Redistributor& redistributor, const PointIds& points) const {
  const RepeatedProblem& repeated = variant_.repeated;
  BuildOptions build{variant_.times(points), repeated.is_optional, {}};
  build.again.assign(repeated.problem.graph.nodes.size(), -1);
  for (std::size_t i = 0; i < is_offer_.size(); ++i) {
    const std::int32_t again = repeated.again_of[i];
    if (again >= 0 && is_offer_[i] != 0) build.again[ix(repeated.index_of[i])] = again;
  }
  return build_network(repeated.problem, redistributor, build);
}

std::vector<char> Offers::taken(const ModelNetwork& network, const engine::Assignment& assignment) const {
  std::vector<char> which(is_offer_.size(), 0);
  for (std::size_t i = 0; i < which.size(); ++i) {
    const std::int32_t again = variant_.repeated.again_of[i];
    which[i] = again >= 0 && is_offer_[i] != 0 && runs(network, assignment, again) ? 1 : 0;
  }
  return which;
}

}  // namespace autopar::partition
