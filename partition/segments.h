#pragma once

#include <cstdint>
#include <vector>

#include "costs/graph.h"

namespace autopar::partition {

/// The chain of segments: a segment is one layer's forward and backward together, or what lies before, between or after
/// stacks of layers (embeddings, final norm, head and loss).
struct Segments {
  std::vector<std::int32_t> of_node;  ///< per Graph::nodes: position in the chain
  std::int32_t count = 1;
};

/// Finds layers by module path: the first component that is a number tells layers of one stack apart
/// ("model.layers.3.mlp" is layer 3 of the stack "model.layers"). A graph without module paths goes by the names of the
/// parameters that its forward reads.
///
/// Layers follow one another in the order in which the forward reaches them; forward nodes outside all layers belong to
/// the gap where they stand. A backward node belongs to the segment of its forward: by module, by sequence number, and
/// never to a later segment than what it reads from the backward (gradient sums carry no module and a sequence number
/// of no meaning). A graph input belongs to its first reader. Layers of equal structure get equal segments.
Segments find_segments(const costs::Graph& graph);

}  // namespace autopar::partition
