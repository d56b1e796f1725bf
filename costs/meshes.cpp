#include "costs/meshes.h"

#include <algorithm>

namespace autopar::costs {
namespace {

bool fits(std::int64_t inside, const Cluster& cluster) {
  return std::ranges::all_of(cluster.links, [inside](const Link& link) {
    return link.group == 0 || link.group % inside == 0 || inside % link.group == 0;
  });
}

/// Adds all shapes that begin with `outer`, of which `left` devices are inside.
void add_shapes(std::vector<std::int64_t>& outer, std::int64_t left, int max_dims, const Cluster& cluster,
                std::vector<Mesh>& found) {
  if (left == 1) {
    found.push_back({outer, {}});
    return;
  }
  if (static_cast<int>(outer.size()) == max_dims) return;
  for (std::int64_t size = left; size >= 2; --size) {
    if (left % size != 0 || !fits(left / size, cluster)) continue;
    outer.push_back(size);
    add_shapes(outer, left / size, max_dims, cluster, found);
    outer.pop_back();
  }
}

}  // namespace

std::vector<Mesh> meshes_of(std::int64_t num_devices, int max_dims, const Cluster& cluster) {
  if (num_devices == 1) return {{{1}, {}}};
  std::vector<Mesh> found;
  std::vector<std::int64_t> outer;
  add_shapes(outer, num_devices, max_dims, cluster, found);
  std::ranges::stable_sort(found, {}, &Mesh::rank);
  return found;
}

}  // namespace autopar::costs
