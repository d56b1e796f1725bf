#pragma once

#include <string>

namespace autopar::launch {

/// On rank 0, SIGUSR1, SIGTERM and SIGINT ask for an early end of the search (engine/stop.h); a second one of the
/// latter two ends the process. The others wait for what rank 0 says.
void handle_signals(bool is_rank_0);

/// "SIGUSR1"
std::string signal_name(int signal);

}  // namespace autopar::launch
