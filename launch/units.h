#pragma once

#include <cstdint>
#include <string>

#include "costs/mesh.h"

namespace autopar::launch {

/// Picoseconds as a person reads them: "12.3 ms".
std::string time_text(std::int64_t ps);
/// Bytes as a person reads them, in powers of 1024: "31.2 GiB".
std::string bytes_text(std::int64_t bytes);

/// A mesh as a person reads it: "dp=8, tp=4".
std::string mesh_text(const costs::Mesh& mesh);

}  // namespace autopar::launch
