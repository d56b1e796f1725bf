#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costs/mesh.h"
#include "io/json.h"

namespace autopar::io {

/// Most devices that a mesh may have: far above real clusters, so that sizes stay within 64 bits.
inline constexpr std::int64_t kMaxDevices = std::int64_t{1} << 24;

/// Names for mesh dims that have none: "dp" on a 1-D mesh, "dp" and "tp" on a 2-D one, else "dim0", "dim1", …
std::vector<std::string> default_dim_names(std::size_t num_dims);

/// What is wrong with `mesh`; nothing if it can be used.
std::optional<std::string> mesh_fault(const costs::Mesh& mesh);

/// Reads {"shape": [8, 4], "dim_names": ["dp", "tp"]}; the names may be left out. Throws InputError.
costs::Mesh read_mesh(const JsonValue& value);

}  // namespace autopar::io
