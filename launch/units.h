#pragma once

#include <cstdint>
#include <string>

namespace autopar::launch {

/// Picoseconds as a person reads them: "12.3 ms".
std::string time_text(std::int64_t ps);
/// Bytes as a person reads them, in powers of 1024: "31.2 GiB".
std::string bytes_text(std::int64_t bytes);

}  // namespace autopar::launch
