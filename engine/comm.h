#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/timing.h"

namespace autopar::engine {

/// The ranks that search together. The only part of the program that talks to MPI; call it from one thread per rank
/// (the one that made it). Byte strings travel; what they mean is in messages.h.
class Comm {
 public:
  /// Initialises MPI if a launcher (mpirun, srun, ...) started this process; otherwise this is a world of one rank
  /// without MPI, whose start takes 0.3 s, longer than most searches. At most one per process, alive until it ends.
  /// LaunchError if a launcher started several processes that MPI cannot join.
  Comm(int& argc, char**& argv);
  /// A world of one rank without MPI, for tests and embedding.
  Comm();
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const;
  int size() const;

  /// Collective: rank 0's bytes replace everyone's, passed on along a binomial tree. Waiting ranks sleep.
  void broadcast(std::string& bytes);

  /// Collective: on rank 0 everyone's bytes, by rank; on the others nothing.
  std::vector<std::string> gather(std::string bytes);

  struct Message {
    int from = 0;
    std::string bytes;
  };
  /// Never blocks on the receiver. Requires: to != rank().
  void send(int to, std::string bytes);
  /// The next message to this rank, if one is there.
  std::optional<Message> try_receive();
  /// Waits for a message, sleeping with a growing pause (a blocking MPI receive would burn a core).
  Message receive();
  /// As receive(), but about `longest` at most.
  std::optional<Message> receive_within(std::chrono::microseconds longest);

  /// What this rank does. Filled by whoever knows; messages are counted here.
  Timing& timing() { return timing_; }
  bool has_log() const { return log_ != nullptr; }
  /// Requires: has_log().
  void log(const std::string& line) const { log_(line); }
  void set_log(std::function<void(const std::string&)> log) { log_ = std::move(log); }

  /// Ends all ranks at once. For internal errors: a rank that only threw would hang the others.
  [[noreturn]] void abort(int exit_code);

 private:
  struct World;
  void send(int to, int tag, std::string bytes);

  std::unique_ptr<World> world_;
  Timing timing_;
  std::function<void(const std::string&)> log_;
};

/// Collective: rank 0's value on all ranks.
template <class T>
requires std::is_trivially_copyable_v<T> T share(Comm& comm, const T& value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  comm.broadcast(bytes);
  if (bytes.size() != sizeof(T)) throw std::logic_error("rank 0 runs another version of the program");
  T shared;
  std::memcpy(&shared, bytes.data(), sizeof(T));
  return shared;
}

}  // namespace autopar::engine
