#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "costs/cluster.h"
#include "costs/graph.h"
#include "costs/memory.h"
#include "costs/mesh.h"
#include "costs/placement.h"

namespace autopar::partition {

/// Wanted placements of one tensor: per mesh dim a placement, or nothing where the search is free.
struct Pin {
  std::array<std::optional<costs::Placement>, costs::kMaxMeshDims> at{};
  std::string source;  ///< for messages: file and pattern that the pin came from; empty: there is no pin

  bool allows(const costs::Placements& placements) const {
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (at[i] && *at[i] != placements.at[i]) return false;
    }
    return true;
  }
};

/// The user's constraints, resolved against one graph.
struct Pins {
  std::vector<Pin> nodes;               ///< per Graph::nodes: on the first output; empty: no pins
  std::vector<Pin> outputs;             ///< per Graph::outputs; empty: no pins
  std::int64_t memory_limit_bytes = 0;  ///< at any time, per device
  bool may_recompute = true;            ///< nodes may run again in the backward to save memory
  std::vector<char> recompute;  ///< per Graph::nodes: these run again, and no others; empty: as the search likes
  std::vector<char> compiled;   ///< per Graph::nodes: run through torch.compile; empty: none
  costs::OptimizerState optimizer;
};

/// All that decides a plan.
struct Problem {
  costs::Graph graph;
  costs::Mesh mesh;
  costs::Cluster cluster;
  Pins pins;
  bool has_overlap = false;     ///< parameters are gathered ahead and gradients reduced behind (overlap.h)
  bool keep_dominated = false;  ///< all strategies stay, also those that are never better than another
};

/// A pin that no strategy of its node can fulfil, or declared strategies of which none is possible on the mesh. The
/// message names the node, the pin's source and what is possible.
class PinError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace autopar::partition
