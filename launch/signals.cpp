#include "launch/signals.h"

#include <csignal>
#include <cstring>

#include "engine/stop.h"

namespace autopar::launch {

void handle_signals(bool is_rank_0) {
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    struct sigaction action = {};
    action.sa_handler = SIG_IGN;
    if (is_rank_0) action.sa_handler = [](int number) { engine::request_stop(number); };
    // Batch systems may warn more than once.
    action.sa_flags = SA_RESTART;
    if (signal != SIGUSR1) action.sa_flags |= static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &action, nullptr);
  }
}

std::string signal_name(int signal) { return std::string("SIG") + ::sigabbrev_np(signal); }

}  // namespace autopar::launch
