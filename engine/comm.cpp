#include "engine/comm.h"

#include <algorithm>
#include <array>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <chrono>
#include <cstdlib>
#include <list>
#include <thread>

#include "engine/launcher.h"

namespace autopar::engine {
namespace {

constexpr int kTag = 1;
constexpr int kBroadcastTag = 2;
constexpr int kGatherTag = 3;

/// Open MPI would end the process itself, with a page of text each, where srun gives it no PMIx. (One that is built
/// with Slurm's own PMI could go on, but nothing tells before it has tried; all of them have mpirun.)
#ifdef OPEN_MPI
constexpr bool kNeedsPmix = true;
#else
constexpr bool kNeedsPmix = false;
#endif

/// Such as "Open MPI v4.1.4".
std::string mpi_name() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string name(text.data(), static_cast<std::size_t>(length));
  return name.substr(0, name.find_first_of(",\n"));
}

[[noreturn]] void refuse(const Launcher& launcher) {
  throw LaunchError(launcher.is_first ? launch_fault(launcher, mpi_name()) : "");
}

/// Pause that grows while nothing happens: waiting costs about 1% of a core, a busy exchange stays quick.
class Backoff {
 public:
  void pause() {
    std::this_thread::sleep_for(pause_);
    if (pause_ < kLongest) pause_ *= 2;
  }

 private:
  static constexpr std::chrono::microseconds kLongest{2000};
  std::chrono::microseconds pause_{20};
};

}  // namespace

struct Comm::World {
  struct PendingSend {
    std::string bytes;
    boost::mpi::request request;
  };

  World(int& argc, char**& argv) : environment(argc, argv, boost::mpi::threading::funneled) {}

  void send(int to, int tag, std::string bytes) {
    forget_finished_sends();
    PendingSend& pending = sends.emplace_back();
    pending.bytes = std::move(bytes);
    pending.request = world.isend(to, tag, pending.bytes.data(), static_cast<int>(pending.bytes.size()));
  }

  void forget_finished_sends() {
    sends.remove_if([](PendingSend& pending) { return pending.request.test().has_value(); });
  }

  std::optional<Message> try_receive(int from, int tag) {
    const auto status = world.iprobe(from, tag);
    if (!status) return std::nullopt;
    Message message;
    message.from = status->source();
    message.bytes.resize(static_cast<std::size_t>(status->count<char>().value_or(0)));
    world.recv(message.from, tag, message.bytes.data(), static_cast<int>(message.bytes.size()));
    return message;
  }

  Message receive(int from, int tag) {
    Backoff backoff;
    while (true) {
      if (auto message = try_receive(from, tag)) return std::move(*message);
      forget_finished_sends();
      backoff.pause();
    }
  }

  boost::mpi::environment environment;
  boost::mpi::communicator world;
  std::list<PendingSend> sends;  // a list: the buffers must stay where they are
};

Comm::Comm(int& argc, char**& argv) {
  const Launcher launcher = find_launcher([](const char* name) { return std::getenv(name); });
  if (launcher.kind == Launcher::Kind::kNone) return;
  if (kNeedsPmix && launcher.kind == Launcher::Kind::kSlurm) refuse(launcher);
  world_ = std::make_unique<World>(argc, argv);
  // Else each of the processes would search for itself and write the same file.
  if (size() == 1 && launcher.num_processes > 1) {
    world_.reset();  // Boost.MPI aborts if an exception passes its environment
    refuse(launcher);
  }
}

Comm::Comm() = default;

Comm::~Comm() {
  if (!world_) return;
  Backoff backoff;
  for (world_->forget_finished_sends(); !world_->sends.empty(); world_->forget_finished_sends()) backoff.pause();
}

int Comm::rank() const { return world_ ? world_->world.rank() : 0; }

int Comm::size() const { return world_ ? world_->world.size() : 1; }

void Comm::broadcast(std::string& bytes) {
  // Rank r hears from r without its highest bit, and tells r + 2^k for all larger 2^k.
  int bit = 1;
  while (bit <= rank()) bit *= 2;
  if (rank() != 0) bytes = world_->receive(rank() - bit / 2, kBroadcastTag).bytes;
  for (; rank() + bit < size(); bit *= 2) send(rank() + bit, kBroadcastTag, bytes);
}

std::vector<std::string> Comm::gather(std::string bytes) {
  if (rank() != 0) {
    send(0, kGatherTag, std::move(bytes));
    return {};
  }
  std::vector<std::string> all{std::move(bytes)};
  for (int from = 1; from < size(); ++from) all.push_back(world_->receive(from, kGatherTag).bytes);
  return all;
}

void Comm::send(int to, std::string bytes) { send(to, kTag, std::move(bytes)); }

void Comm::send(int to, int tag, std::string bytes) {
  ++timing_.messages;
  timing_.bytes += static_cast<std::int64_t>(bytes.size());
  world_->send(to, tag, std::move(bytes));
}

std::optional<Comm::Message> Comm::try_receive() {
  if (!world_) return std::nullopt;
  world_->forget_finished_sends();
  return world_->try_receive(boost::mpi::any_source, kTag);
}

Comm::Message Comm::receive() { return world_->receive(boost::mpi::any_source, kTag); }

std::optional<Comm::Message> Comm::receive_within(std::chrono::microseconds longest) {
  if (auto message = try_receive()) return message;
  std::this_thread::sleep_for(longest);
  return try_receive();
}

void Comm::abort(int exit_code) {
  if (world_) boost::mpi::environment::abort(exit_code);
  std::exit(exit_code);
}

}  // namespace autopar::engine
