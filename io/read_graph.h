#pragma once

#include <string>
#include <vector>

#include "costs/graph.h"
#include "io/json.h"

namespace autopar::io {

/// Bounds on what a graph may hold. They are far above real models and keep sizes, byte counts and costs computed from
/// them within 64 bits.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;
inline constexpr std::int64_t kMaxTensorDims = 32;

/// The graph of a model file and what costs::Graph has no use for.
struct GraphFile {
  costs::Graph graph;
  std::vector<std::vector<std::string>> aliases;  ///< per node: further names of a tied parameter
};

/// Reads `inputs`, `nodes`, `outputs`, `name` and `graph_hash` of model.json's top-level object. Throws InputError on
/// anything that the format does not allow: see docs/model-json.md. A node gets its index in inputs, or the number of
/// inputs + its index in nodes.
GraphFile read_graph(const JsonValue& root);

}  // namespace autopar::io
