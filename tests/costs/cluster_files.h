#pragma once

#include <string>

#include "io/read_cluster.h"

namespace autopar::costs::testing {

/// A cluster that comes with the program: "h100".
inline Cluster shipped_cluster(const std::string& name) {
  return io::read_cluster(AUTOPAR_SOURCE_DIR "/costs/clusters/" + name + ".json", "test").cluster;
}

}  // namespace autopar::costs::testing
