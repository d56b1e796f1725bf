#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace autopar::costs {

/// Most mesh dims that a plan can have.
inline constexpr int kMaxMeshDims = 6;

/// A grid of devices. Mesh dim 0 is the outermost (its neighbours are furthest apart), as in torch's DeviceMesh:
/// ranks are numbered in row-major order.
struct Mesh {
  std::vector<std::int64_t> shape;
  std::vector<std::string> dim_names;  ///< as many as dims

  int rank() const { return static_cast<int>(shape.size()); }
  std::int64_t num_devices() const {
    std::int64_t n = 1;
    for (std::int64_t size : shape) n *= size;
    return n;
  }
  bool operator==(const Mesh&) const = default;
};

}  // namespace autopar::costs
