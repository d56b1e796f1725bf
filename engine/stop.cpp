#include "engine/stop.h"

#include <atomic>

namespace autopar::engine {
namespace {

std::atomic<int> requested = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not wait");

}  // namespace

void request_stop(int signal) noexcept { requested.store(signal, std::memory_order_relaxed); }

int stop_signal() noexcept { return requested.load(std::memory_order_relaxed); }

}  // namespace autopar::engine
