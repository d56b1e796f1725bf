#pragma once

/// A wish that the search of this process ends now with the best it has, as at a time limit.
namespace autopar::engine {

/// May be called from a signal handler. `signal` is what stop_signal() returns from now on.
void request_stop(int signal) noexcept;

/// 0: nobody wished it.
int stop_signal() noexcept;

}  // namespace autopar::engine
