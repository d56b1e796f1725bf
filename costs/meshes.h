#pragma once

#include <cstdint>
#include <vector>

#include "costs/cluster.h"
#include "costs/mesh.h"

namespace autopar::costs {

/// The shapes of all meshes of `num_devices` devices with at most `max_dims` dims of two devices or more (one device:
/// the mesh of it), without names. Those with few dims come first, of these the ones with large outer dims.
///
/// Left out are meshes that do not fit the cluster: whatever is inside one index of a mesh dim has to fill whole groups
/// of a link level (nodes) or whole shares of one. (8, 3) on nodes of eight devices, for one, would put every third
/// group of three on two nodes.
std::vector<Mesh> meshes_of(std::int64_t num_devices, int max_dims, const Cluster& cluster);

}  // namespace autopar::costs
