#pragma once

#include <memory>
#include <string>
#include <vector>

#include "costs/cluster.h"
#include "costs/mesh.h"
#include "io/json.h"
#include "io/read_graph.h"
#include "partition/problem.h"

namespace autopar::io {

/// A constraints file (docs/constraints.md), not yet resolved against a graph.
struct ConstraintsFile {
  JsonValue constraints;
  std::string hash;
  std::shared_ptr<const JsonDocument> document;  ///< keeps `constraints` alive
};

/// Whether a name is what a pattern of constraints means: a shell glob, or the name itself.
bool matches_pattern(const std::string& pattern, const std::string& name);

/// Throws InputError if `text` is not a constraints file; `file` is for messages.
ConstraintsFile read_constraints(const std::string& file, const std::string& text);

/// Throws InputError unless `constraints` is an object of the keys that constraints inside another file can have.
void check_constraint_keys(const JsonValue& constraints);

/// Pins of all `layers`: where two layers speak of one tensor and mesh dim, the later wins; within a layer that is a
/// contradiction. The memory limit is the cluster's device memory unless a layer sets it.
/// Throws InputError for a pattern that matches nothing, a contradiction (naming both sources), a mesh dim that is not
/// there, and a placement that the tensor cannot have (with the reason).
partition::Pins resolve_constraints(const std::vector<JsonValue>& layers, const GraphFile& graph,
                                    const costs::Mesh& mesh, const costs::Cluster& cluster);

}  // namespace autopar::io
