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

/// The file of a cluster: that of a description that comes with the program, by its name, or `name_or_path` itself if
/// it ends in ".json". `source` says in messages where the name was asked for, "--cluster" for one. Throws InputError
/// for an unknown name; it lists the known ones.
std::string cluster_path(const std::string& name_or_path, const std::string& source);

/// Reads what cluster_path() gives.
ClusterFile read_cluster(const std::string& name_or_path, const std::string& source);
/// As above, of a text that was read; `file` is for messages.
ClusterFile parse_cluster(const std::string& file, const std::string& text);

/// Reads a description (docs/clusters.md) that stands in another file.
ClusterFile read_inline_cluster(const JsonValue& value);

}  // namespace autopar::io
