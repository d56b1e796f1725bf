#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <vector>

#include "costs/redistribute.h"
#include "partition/build_network.h"
#include "partition/holdings.h"
#include "partition/problem.h"
#include "partition/recompute.h"

namespace autopar::partition {

/// A time point, whatever runs again: the one at `place` of those of a node of the original graph in its first or
/// second run; or, with node = -1, when all nodes have run.
struct PointId {
  std::int32_t node = -1;
  bool again = false;
  std::int32_t place = 0;
  auto operator<=>(const PointId&) const = default;
};
using PointIds = std::set<PointId>;

/// A problem in which some nodes run again, with its time points.
class Variant {
 public:
  /// As with_repeated().
  Variant(const Problem& problem, const std::vector<char>& which, bool reads_again);

  /// Those of `ids` that this problem has, ascending.
  std::vector<std::int32_t> times(const PointIds& ids) const;
  PointId id(std::int32_t time) const;

  RepeatedProblem repeated;

 private:
  Timeline timeline_;
  std::vector<PointId> id_of_;  // per node
};

/// A problem with an offer to run again for every node that can. Views run again whenever something reads them, and are
/// no decision.
class Offers {
 public:
  explicit Offers(const Problem& problem);

  /// That the networks are of.
  const Problem& problem() const { return variant_.repeated.problem; }
  /// Allows all that any variant allows, so its bounds hold for all.
  ModelNetwork network(const costs::Redistributor& redistributor, const PointIds& points) const;
  /// Per node of the original graph, whether `assignment` lets it run again.
  std::vector<char> taken(const ModelNetwork& network, const engine::Assignment& assignment) const;

 private:
  std::vector<char> is_offer_;  // per node of the original graph
  Variant variant_;
};

}  // namespace autopar::partition
