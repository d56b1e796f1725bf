#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "costs/redistribute.h"
#include "engine/cost_network.h"
#include "partition/plan.h"
#include "partition/problem.h"

namespace autopar::partition {

/// The cost network of a model and what its variables stand for.
struct ModelNetwork {
  engine::CostNetwork network;
  /// Ops without a rule, in order of first appearance: their nodes are replicated.
  std::vector<std::string> unknown_ops;

  struct Impl;
  std::shared_ptr<const Impl> impl;  ///< strategies and copies behind the variables; make_plan needs it
};

/// Prices every choice of `problem`. Throws PinError if a pin leaves a node without a strategy.
ModelNetwork build_network(const Problem& problem, const costs::Redistributor& redistributor);

/// The plan that `assignment` stands for.
Plan make_plan(const Problem& problem, const costs::Redistributor& redistributor, const ModelNetwork& model,
               const engine::Assignment& assignment);

}  // namespace autopar::partition
