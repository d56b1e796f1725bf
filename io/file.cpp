#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "io/input_error.h"

namespace autopar::io {
namespace {

/// JSON parsers read a little past the end; with this much spare capacity they need not copy the text.
constexpr std::size_t kPadding = 64;

[[noreturn]] void fail_errno(const std::string& path, std::string_view what) {
  throw InputError(path, "", fmt::format("{}: {}", what, std::strerror(errno)));
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

[[noreturn]] void fail_too_large(const std::string& path, std::int64_t max_bytes) {
  throw InputError(path, "", fmt::format("larger than {} MiB", max_bytes >> 20));
}

std::string read_raw(const std::string& path, std::int64_t max_bytes) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_errno(path, "cannot open");
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_errno(path, "cannot read");
  if (S_ISDIR(info.st_mode)) throw InputError(path, "", "is a directory, not a file");
  if (info.st_size > max_bytes) fail_too_large(path, max_bytes);

  std::string content;
  std::size_t size = 0;
  std::size_t room = static_cast<std::size_t>(info.st_size) + 1;  // one more than expected, to see the end
  while (true) {
    content.reserve(size + room + kPadding);
    content.resize(size + room);
    const ssize_t got = ::read(file.get(), content.data() + size, room);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(path, "cannot read");
    size += static_cast<std::size_t>(got);
    if (got == 0) break;
    if (size > static_cast<std::size_t>(max_bytes)) fail_too_large(path, max_bytes);
    room = std::max<std::size_t>(room - static_cast<std::size_t>(got), 1 << 16);
  }
  content.resize(size);
  return content;
}

bool is_gzip(std::string_view content) { return content.starts_with("\x1f\x8b"); }

class Inflater {
 public:
  Inflater() {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

/// What the last four bytes of gzip data say of its size (RFC 1952), so that a large text need not be moved as it
/// grows; one more, to see the end. They may be damaged, so no more than deflate can make of so few bytes.
std::size_t first_room(std::string_view packed) {
  constexpr std::size_t kMostPerByte = 1032;
  constexpr std::size_t kSizeBytes = 4;
  std::size_t size = 0;
  for (std::size_t i = 0; i < std::min(packed.size(), kSizeBytes); ++i) {
    size = size << 8 | static_cast<unsigned char>(packed[packed.size() - 1 - i]);
  }
  return std::min(size, packed.size() * kMostPerByte) + 1;
}

/// Decompresses all members of a gzip file.
std::string inflate_all(const std::string& path, const std::string& packed, std::int64_t max_bytes) {
  Inflater inflater;
  z_stream& stream = inflater.stream();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string content;
  std::size_t size = 0;
  std::size_t room = first_room(packed);
  while (true) {
    room = std::min(room, static_cast<std::size_t>(max_bytes) + 1 - size);
    content.reserve(size + room + kPadding);
    content.resize(size + room);
    stream.next_out = reinterpret_cast<Bytef*>(content.data() + size);
    stream.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream, Z_NO_FLUSH);
    size = content.size() - stream.avail_out;
    const std::size_t offset = packed.size() - stream.avail_in;
    if (size > static_cast<std::size_t>(max_bytes)) fail_too_large(path, max_bytes);
    if (result == Z_STREAM_END) {
      if (stream.avail_in == 0) break;
      inflateReset(&stream);  // another member follows
    } else if (result == Z_DATA_ERROR || result == Z_NEED_DICT) {
      throw InputError(path, fmt::format("byte {}", offset),
                       fmt::format("damaged gzip data ({})", stream.msg != nullptr ? stream.msg : "no data"));
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw std::bad_alloc();
    } else if (stream.avail_in == 0 && stream.avail_out > 0) {
      throw InputError(path, fmt::format("byte {}", offset), "the gzip data ends too early: the file is cut off");
    }
    room = stream.avail_out > 0 ? stream.avail_out : size;
  }
  content.resize(size);
  return content;
}

std::string temporary_prefix(const std::string& target) {
  return fmt::format(".{}.", std::filesystem::path(target).filename().string());
}
constexpr std::string_view kTemporarySuffix = ".tmp";

/// Whether `name` is one that TemporaryFile gives: two numbers between prefix and suffix.
bool is_temporary(std::string_view name, const std::string& target) {
  const std::string prefix = temporary_prefix(target);
  if (!name.starts_with(prefix) || !name.ends_with(kTemporarySuffix)) return false;
  name.remove_suffix(kTemporarySuffix.size());
  return name.find_first_not_of("0123456789.", prefix.size()) == std::string_view::npos;
}

/// A file that is deleted again unless it is renamed to its final name. It is locked as long as its writer lives, so
/// that what a killed one left can be told from what another one is writing.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target) : target_(target) {
    const std::filesystem::path folder = std::filesystem::path(target).parent_path();
    for (int attempt = 0; attempt < 100; ++attempt) {
      name_ =
          (folder / fmt::format("{}{}.{}{}", temporary_prefix(target), ::getpid(), attempt, kTemporarySuffix)).string();
      fd_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd_ < 0 && errno == EEXIST) continue;
      if (fd_ < 0 || !was_taken_for_left()) break;
      ::close(std::exchange(fd_, -1));
    }
    if (fd_ < 0) fail_errno(target, "cannot write");
  }
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!renamed_) ::unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::string_view content) {
    while (!content.empty()) {
      const ssize_t put = ::write(fd_, content.data(), content.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail_errno(target_, "cannot write");
      content.remove_prefix(static_cast<std::size_t>(put));
    }
  }

  void rename_to_target() {
    // Closed after that only: the lock must stand until nobody finds the file under this name.
    if (::fsync(fd_) != 0 || ::rename(name_.c_str(), target_.c_str()) != 0) fail_errno(target_, "cannot write");
    renamed_ = true;
  }

 private:
  /// Whether remove_left_behind came between the making of the file and its lock.
  bool was_taken_for_left() const {
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK;  // other errors: there are no locks here
    struct stat info {};
    return ::fstat(fd_, &info) == 0 && info.st_nlink == 0;
  }

  std::string target_;
  std::string name_;
  int fd_ = -1;
  bool renamed_ = false;
};

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

std::string read_file(const std::string& path, std::int64_t max_bytes) {
  std::string content = read_raw(path, max_bytes);
  return is_gzip(content) ? inflate_all(path, content, max_bytes) : content;
}

void write_file(const std::string& path, std::string_view content) {
  TemporaryFile file(path);
  file.write(content);
  file.rename_to_target();
  // The file is complete either way; only whether its name survives a power failure depends on the folder.
  FileDescriptor folder(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
  remove_left_behind(path);
}

void remove_left_behind(const std::string& path) {
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator it(folder_of(path), error); !error && it != end; it.increment(error)) {
    const std::string name = it->path().string();
    if (!is_temporary(it->path().filename().string(), path)) continue;
    const FileDescriptor file(::open(name.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.get() >= 0 && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(name.c_str());
  }
}

void check_writable(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    throw InputError(path, "", S_ISDIR(info.st_mode) ? "is a directory, not a file" : "is not an ordinary file");
  }
  if (::access(folder_of(path).c_str(), W_OK | X_OK) != 0) fail_errno(path, "cannot write there");
}

std::string content_hash(std::string_view content) {
  return fmt::format("xxh3:{:016x}", XXH3_64bits(content.data(), content.size()));
}

}  // namespace autopar::io
