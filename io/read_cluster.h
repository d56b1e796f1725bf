#pragma once

#include <string>

#include "costs/cluster.h"
#include "io/json.h"

namespace autopar::io {

/// A cluster and the hash of the text that described it.
struct ClusterFile {
  costs::Cluster cluster;
  std::string hash;
};

/// Reads a cluster by name (a description that comes with the program) or, if `name_or_path` ends in ".json", from that
/// file. `source` says in messages where the name was asked for, "--cluster" for one. Throws InputError; for an unknown
/// name it lists the known ones.
ClusterFile read_cluster(const std::string& name_or_path, const std::string& source);

/// Reads a description (docs/clusters.md) that stands in another file.
ClusterFile read_inline_cluster(const JsonValue& value);

}  // namespace autopar::io
