#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/core.h"
#include "engine/cuts.h"
#include "engine/join.h"
#include "engine/presolve.h"

namespace autopar::engine {

/// A network at one stage of a search: what is left after values were fixed away and variables were joined, made
/// smaller by presolve. Each stage but the first is made of the one before. Immutable, shared by threads.
class Stage {
 public:
  Stage(const CostNetwork& network, const PresolveSteps& steps);
  /// The part of `before` that `live` is.
  Stage(const Stage& before, const LiveValues& live, const PresolveSteps& steps);
  /// `before` with joined variables.
  Stage(const Stage& before, const std::vector<Join>& joins, const PresolveSteps& steps);
  /// `before` with more limits.
  Stage(const Stage& before, const std::vector<Cut>& cuts, const PresolveSteps& steps);

  /// Nothing is left that is allowed.
  bool infeasible() const { return trail_->presolve.infeasible(); }
  const CostNetwork& network() const { return network_; }
  const PresolveCounts& counts() const { return trail_->presolve.counts(); }
  const Core& core() const { return *core_; }
  /// A cost in core() plus this is the cost in the first network.
  Cost constant() const { return constant_; }
  std::int64_t num_values() const;

  /// From values in core() to an assignment of the first network.
  Assignment restore(const Assignment& values) const { return trail_->restore(values); }
  /// And back: -1 where a value is gone.
  Assignment reduce(const Assignment& original) const { return trail_->reduce(original); }
  /// Prices of the usage points of `before`, an earlier stage, as prices of this one's.
  std::vector<double> prices_from(const Stage& before, const std::vector<double>& prices) const;

 private:
  /// How assignments and names come back from this stage to the one before: all that later stages need of it, so that
  /// networks and cores that are no longer searched can go.
  struct Trail {
    std::shared_ptr<const Trail> before;
    std::vector<Join> joins;     // of the network before presolve
    Presolve presolve;           // without what it left
    std::int32_t first_cut = 0;  // time of the network before presolve, from which on times are cuts
    std::int32_t num_cuts = 0;   // of this and all earlier stages

    std::int32_t name_of(std::int32_t time) const;
    Assignment restore(const Assignment& values) const;
    Assignment reduce(const Assignment& original) const;
  };

  Stage(const Stage* before, Trail trail);

  std::shared_ptr<const Trail> trail_;
  CostNetwork network_;
  Cost constant_ = 0;
  std::vector<std::int32_t> points_;  // of the core, by name: the time in the first stage's network, or a cut's number
  std::unique_ptr<const Core> core_;
};

}  // namespace autopar::engine
