#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace autopar::io {

/// Largest content that read_file takes, in bytes after decompression: far above real files, below what would exhaust a
/// machine's memory (a gzip file can blow up a thousandfold).
inline constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 30;

/// Whole content of `path`, decompressed if it is gzip data (told by the content, not by the name). Throws InputError
/// if it cannot be read, is cut off or damaged (with the offset in the file), or is larger than `max_bytes`.
std::string read_file(const std::string& path, std::int64_t max_bytes = kMaxFileBytes);

/// Writes `content` to `path` whole or not at all: to a temporary file in the same folder, flushed to disk and then
/// renamed. Throws InputError if that fails; then `path` is as it was and no temporary file stays behind.
void write_file(const std::string& path, std::string_view content);

/// Removes the temporary files of programs that were killed while they wrote `path`. write_file does it too.
void remove_left_behind(const std::string& path);

/// Throws InputError unless write_file(path, …) can be expected to work: its folder exists and can be written to, and
/// `path` is not something else than a file. Lets a program fail before its long work, not after.
void check_writable(const std::string& path);

/// "xxh3:" and the 64-bit XXH3 hash of `content` in hexadecimal.
std::string content_hash(std::string_view content);

}  // namespace autopar::io
