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
  Stage(std::shared_ptr<const Stage> before, const LiveValues& live, const PresolveSteps& steps);
  /// `before` with joined variables.
  Stage(std::shared_ptr<const Stage> before, std::vector<Join> joins, const PresolveSteps& steps);
  /// `before` with more limits.
  Stage(std::shared_ptr<const Stage> before, const std::vector<Cut>& cuts, const PresolveSteps& steps);

  /// Nothing is left that is allowed.
  bool infeasible() const { return presolve_.infeasible(); }
  const CostNetwork& network() const { return presolve_.reduced(); }
  const PresolveCounts& counts() const { return presolve_.counts(); }
  const Core& core() const { return *core_; }
  /// A cost in core() plus this is the cost in the first network.
  Cost constant() const { return constant_; }
  std::int64_t num_values() const;

  /// From values in core() to an assignment of the first network.
  Assignment restore(const Assignment& values) const;
  /// And back: -1 where a value is gone.
  Assignment reduce(const Assignment& original) const;
  /// Prices of the usage points of `before`, an earlier stage, as prices of this one's.
  std::vector<double> prices_from(const Stage& before, const std::vector<double>& prices) const;

 private:
  void finish();
  std::int32_t name_of(std::int32_t time) const;

  std::shared_ptr<const Stage> before_;
  std::unique_ptr<const JoinedNetwork> joined_;  // of before_; may be none
  Presolve presolve_;
  Cost constant_ = 0;
  std::int32_t first_cut_ = 0;        // time of the network before presolve, from which on times are cuts
  std::int32_t num_cuts_ = 0;         // of this and all earlier stages
  std::vector<std::int32_t> points_;  // of the core, by name: the time in the first stage's network, or a cut's number
  std::unique_ptr<const Core> core_;
};

}  // namespace autopar::engine
