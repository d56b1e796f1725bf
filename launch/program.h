#pragma once

#include "engine/comm.h"

namespace autopar::launch {

/// The whole program, on every rank: rank 0 reads and checks the input, all ranks search, rank 0 writes the plan. All
/// ranks return the same exit code (exit_codes.h). Throws only on internal errors.
int run(int argc, char** argv, engine::Comm& comm);

}  // namespace autopar::launch
