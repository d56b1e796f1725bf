#pragma once

namespace autopar::launch {

/// The program autopar-simulate: reads a plan, runs its timeline and says how long it takes. Returns the exit code
/// (exit_codes.h). Throws only on internal errors.
int run_simulate(int argc, char** argv);

}  // namespace autopar::launch
