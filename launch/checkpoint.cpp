#include "launch/checkpoint.h"

#include <fmt/format.h>

#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/string.hpp>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/bytes.h"
#include "engine/stop.h"
#include "io/file.h"
#include "io/input_error.h"
#include "launch/stopwatch.h"

namespace autopar::launch {
namespace {

namespace fs = std::filesystem;

/// First line of the file; the second is the hash of all that follows.
constexpr std::string_view kFormat = "autopar-checkpoint 1\n";
/// How soon a signal is seen.
constexpr std::chrono::milliseconds kTick{50};

std::string previous(const std::string& path) { return path + ".previous"; }

}  // namespace

Checkpoint::Checkpoint(std::string path, Identity identity, double interval_s,
                       std::function<void(const std::string&)> warn)
    : path_(std::move(path)), identity_(std::move(identity)), interval_s_(interval_s), warn_(std::move(warn)) {
  if (interval_s_ > 0) thread_ = std::thread([this] { watch(); });
}

Checkpoint::~Checkpoint() { close(false); }

bool Checkpoint::load() {
  std::string fault;
  for (const std::string& path : {path_, previous(path_)}) {
    if (!fs::exists(path)) continue;
    try {
      if (load(path)) {
        if (!fault.empty()) warn_(fmt::format("{}; going on from {}", fault, path));
        return true;
      }
      fault = fmt::format("{}: is damaged", path);
    } catch (const io::InputError& error) {
      if (fault.empty()) throw;
    }
  }
  if (!fault.empty()) throw io::InputError(path_, "", "is damaged; remove it to start from the beginning");
  return false;
}

/// Returns false if the file is damaged.
bool Checkpoint::load(const std::string& path) {
  const std::string text = io::read_file(path);
  if (!text.starts_with("autopar-checkpoint ")) return false;
  if (!text.starts_with(kFormat)) {
    throw io::InputError(path, "line 1",
                         "is of another version of autopar-search; remove it to start from the beginning");
  }
  const std::size_t end = text.find('\n', kFormat.size());
  if (end == std::string::npos) return false;
  const std::string content = text.substr(end + 1);
  if (text.substr(kFormat.size(), end - kFormat.size()) != io::content_hash(content)) return false;
  Identity identity;
  std::map<std::string, std::string> found;
  engine::from_bytes<cereal::PortableBinaryInputArchive>(content, identity, found);
  for (const auto& [name, value] : identity_) {
    if (identity[name] == value) continue;
    throw io::InputError(
        path, "",
        fmt::format("is of a search with {} {}, and this one has {}; remove it, or leave out --resume", name,
                    identity[name].empty() ? "(none)" : identity[name], value.empty() ? "(none)" : value));
  }
  const std::lock_guard lock(mutex_);
  found_ = std::move(found);
  return true;
}

std::optional<std::string> Checkpoint::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto it = found_.find(key);
  return it == found_.end() ? std::nullopt : std::optional(it->second);
}

void Checkpoint::put(const std::string& key, std::string bytes) {
  const std::lock_guard lock(mutex_);
  found_[key] = std::move(bytes);
  has_news_ = true;
}

void Checkpoint::close(bool is_over) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return;
    is_closed_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (!is_over) {
    if (interval_s_ > 0) write();
    return;
  }
  std::error_code error;
  fs::remove(path_, error);
  fs::remove(previous(path_), error);
  io::remove_left_behind(path_);
}

void Checkpoint::watch() {
  Stopwatch since_written;
  bool has_stopped = false;
  std::unique_lock lock(mutex_);
  while (!is_closed_) {
    wake_.wait_for(lock, kTick, [&] { return is_closed_; });
    const bool stops = engine::stop_signal() != 0 && !std::exchange(has_stopped, true);
    if (is_closed_ || !(stops || since_written.seconds() >= interval_s_)) continue;
    lock.unlock();
    write();
    since_written = Stopwatch();
    lock.lock();
  }
}

void Checkpoint::write() {
  std::string content;
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(has_news_, false)) return;
    content = engine::to_bytes<cereal::PortableBinaryOutputArchive>(identity_, found_);
  }
  std::error_code error;
  fs::remove(previous(path_), error);
  if (fs::exists(path_)) fs::create_hard_link(path_, previous(path_), error);
  try {
    io::write_file(path_, fmt::format("{}{}\n{}", kFormat, io::content_hash(content), content));
  } catch (const io::InputError& failure) {
    warn_(failure.what());
    const std::lock_guard lock(mutex_);
    has_news_ = true;
  }
}

}  // namespace autopar::launch
