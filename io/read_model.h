#pragma once

#include <memory>
#include <optional>
#include <string>

#include "costs/mesh.h"
#include "io/json.h"
#include "io/read_cluster.h"
#include "io/read_graph.h"

namespace autopar::io {

/// A model.json (docs/model-json.md).
struct ModelFile {
  GraphFile graph_file;
  std::optional<costs::Mesh> mesh;
  std::string cluster_name;                   ///< empty: not named
  std::optional<ClusterFile> inline_cluster;  ///< at most one of the two
  std::optional<JsonValue> constraints;       ///< for resolve_constraints
  std::string hash;                           ///< content_hash of the decompressed file

  std::shared_ptr<const JsonDocument> document;  ///< keeps `constraints` alive
};

/// Reads a plain or gzipped model file. Throws InputError on everything that the format does not allow, before memory
/// or time is spent on it.
ModelFile read_model(const std::string& path);
/// As above, of a text that was read; `file` is for messages.
ModelFile read_model(const std::string& file, const std::string& text);

/// The name or path of the cluster that a model file asks for; empty if it describes or asks for none. Throws
/// InputError.
std::string cluster_name_of(const std::string& file, const std::string& text);

}  // namespace autopar::io
