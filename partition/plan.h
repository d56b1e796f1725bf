#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "costs/graph.h"
#include "costs/local_program.h"
#include "costs/mesh.h"
#include "costs/redistribute.h"
#include "costs/strategy.h"
#include "engine/solve.h"

namespace autopar::partition {

/// What was chosen for one node (graph inputs included).
struct NodeChoice {
  std::vector<costs::Placements> inputs;   ///< what the op gets, per Node::inputs
  std::vector<costs::Placements> outputs;  ///< what it gives
  std::int64_t compute_ps = 0;
  std::array<costs::LocalProgram, costs::kMaxMeshDims> programs{};  ///< per mesh dim
  std::vector<costs::ProgramAllReduce> all_reduces = {};            ///< those inside the programs, in order
};

/// One redistribution: value `value` goes from `from` to `to`. Consumers of a value in one phase that share a
/// redistributed copy appear as one entry with several uses.
struct Redistribution {
  /// A reader of the copy: input `input` of node `node`; or, with input = -1, the graph output with index `node`.
  struct Use {
    std::int32_t node = -1;
    std::int32_t input = -1;
  };
  costs::ValueRef value;
  costs::Phase phase = costs::Phase::kForward;
  costs::Placements from;
  costs::Placements to;
  std::vector<costs::RedistributeStep> steps;
  std::vector<Use> uses;
};

/// A complete plan with what it costs.
struct Plan {
  costs::Mesh mesh;
  std::vector<NodeChoice> nodes;                ///< per Graph::nodes
  std::vector<costs::Placements> outputs;       ///< per Graph::outputs: what is handed out
  std::vector<Redistribution> redistributions;  ///< in the order of the value's node, then phase, then first use
  std::int64_t cost_ps = 0;                     ///< compute + communication
  std::int64_t compute_ps = 0;
  std::int64_t communication_ps = 0;
  std::int64_t parameter_bytes = 0;  ///< parameters + gradients + optimizer state on one device
  std::int64_t memory_limit_bytes = 0;
};

}  // namespace autopar::partition
