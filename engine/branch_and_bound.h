#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "engine/block.h"
#include "engine/branching.h"
#include "engine/part.h"

namespace autopar::engine {

/// Searches parts of a network's assignments for solutions below a cutoff, in rounds of a few open parts each, which
/// are bounded, eliminated if they are small enough, or else split (Branching). Half of a round are the parts with the
/// least bounds, which raise the bound of all; the others are the youngest, which lead to solutions.
///
/// The parts of a round are worked on in parallel (TBB). What they find is put together in a fixed order after the
/// round, so that the result does not depend on the number of threads.
class BranchAndBound {
 public:
  /// `root`: a part of `network`, which must stay where it is. `options`: of elimination.
  BranchAndBound(const CostNetwork& network, Part root, const BlockOptions& options);

  /// One round. Of solutions below `cutoff` the best that it came by is in best() afterwards.
  void search(Cost cutoff, const Deadline& deadline);
  /// No part is open.
  bool is_done() const { return open_.empty(); }
  /// No solution below the cutoff of the last round costs less. kForbidden: there is none but best().
  Cost bound() const { return open_.empty() ? kForbidden : open_.begin()->bound; }

  const Assignment& best() const { return best_; }  ///< empty: none yet
  Cost best_cost() const { return best_cost_; }
  std::int64_t num_nodes() const { return num_nodes_; }
  std::size_t work() const { return work_; }  ///< table entries read, about

 private:
  struct Node {
    std::shared_ptr<const Part> above;
    std::shared_ptr<const LiveValues> live;  // of above, without what was excluded; shared by siblings
    std::int32_t variable = -1;              // that has only `values` here; -1: none
    std::vector<std::int32_t> values;
    Cost bound = 0;
    std::size_t tried = 0;    // open values when elimination was tried last; 0: never
    std::int64_t number = 0;  // in order of making
    bool operator<(const Node& other) const {
      return bound != other.bound ? bound < other.bound : number > other.number;
    }
  };
  struct Result {
    bool is_stopped = false;
    std::vector<Node> nodes;  // best last
    Assignment assignment;
    Cost cost = kForbidden;
    std::vector<std::pair<std::int32_t, double>> scores;
    std::size_t work = 0;
  };

  std::vector<Node> take_round(Cost cutoff);
  Result process(const Node& node, Cost cutoff, const Deadline& deadline) const;
  std::optional<Part> bound_part(const Node& node, Cost cutoff, const Deadline& deadline, Result& result) const;
  bool close(const Part& part, Node& node, Cost cutoff, const Deadline& deadline, Result& result) const;
  /// Cost of the part's `values`, which the result keeps if they are better than what it has.
  Cost note(const Part& part, const std::vector<std::int32_t>& values, Result& result) const;
  void put(Node node);

  const CostNetwork& network_;
  BlockOptions options_;
  std::set<Node> open_;
  BranchingHistory history_;
  Assignment best_;
  Cost best_cost_ = kForbidden;
  std::size_t most_open_;
  std::int64_t num_made_ = 0;
  std::int64_t num_nodes_ = 0;
  std::size_t work_ = 0;
};

}  // namespace autopar::engine
