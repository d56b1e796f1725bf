#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace autopar::launch {

/// What a search has found so far, in a file from which another run goes on. A thread of its own writes the file: every
/// so often if there is news, and at once when a signal asks for the end of the search (engine/stop.h). Written whole
/// or not at all; the file before it is kept as "….previous".
class Checkpoint {
 public:
  /// Facts that tell one search from another, with a name each: {"model", "xxh3:…"}.
  using Identity = std::map<std::string, std::string>;

  /// `interval_s`: 0: the file is never written. `warn` hears of failures to write, on that thread; the search goes on.
  Checkpoint(std::string path, Identity identity, double interval_s, std::function<void(const std::string&)> warn);
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  /// Reads the file, or, if it is missing or damaged, the one before it. Returns false if there is none. Throws
  /// io::InputError for one of another search.
  bool load();
  std::optional<std::string> find(const std::string& key) const;
  void put(const std::string& key, std::string bytes);
  /// Writes what there is and ends the thread; or, if the search is over, removes the files.
  void close(bool is_over);

 private:
  bool load(const std::string& path);
  void watch();
  void write();

  const std::string path_;
  const Identity identity_;
  const double interval_s_;
  const std::function<void(const std::string&)> warn_;
  mutable std::mutex mutex_;  // for all below
  std::map<std::string, std::string> found_;
  bool has_news_ = false;
  bool is_closed_ = false;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace autopar::launch
