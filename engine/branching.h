#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/block.h"
#include "engine/part.h"

namespace autopar::engine {

/// How much splitting each variable has raised bounds so far, as a share of the gap.
class BranchingHistory {
 public:
  explicit BranchingHistory(std::size_t num_variables) : sums_(num_variables, 0), counts_(num_variables, 0) {}
  void note(std::int32_t variable, double score);
  /// The mean; negative: not known.
  double score(std::int32_t variable) const;

 private:
  std::vector<double> sums_;
  std::vector<int> counts_;
};

/// A way to split a part by one variable.
struct Branching {
  struct Branch {
    std::vector<std::int32_t> values;  ///< of the variable
    Cost bound = 0;
  };
  std::int32_t variable = -1;    ///< -1: the deadline passed, or no variable is open
  std::vector<Branch> branches;  ///< all solutions are in one of them; ascending by bound
  /// Values that were found out to be of no use: LiveValues less these. If there are any, the part should be bounded
  /// again rather than split.
  LiveValues live;
  bool has_excluded = false;
  bool is_empty = false;                                ///< the part has no solution below the cutoff
  std::vector<std::pair<std::int32_t, double>> scores;  ///< for the history
  std::size_t work = 0;                                 ///< table entries read
};

/// What is missing from the part's bound to the cutoff; as long as there is no cutoff, a share of the bound.
double gap_of(const Part& part, Cost cutoff);

/// Strong branching (Achterberg, Koch, Martin 2005: Branching rules revisited): tries the variables that are likely to
/// raise the bound and takes the one that does, each value of it leading to a higher bound. Values that would pass the
/// cutoff are excluded on the way. The trials run in parallel (TBB); the result does not depend on the number of
/// threads.
///
/// Likely are variables that keep the part's rounding from costing no more than its bound: those at edges that the
/// rounding has to pay for, and those whose values, nearly equal in cost at the current prices, use different amounts,
/// so that a small change of a price would turn them.
Branching choose_branching(const CostNetwork& network, const Part& part, Cost cutoff, const BranchingHistory& history,
                           const Deadline& deadline);

}  // namespace autopar::engine
