#pragma once

namespace autopar::launch {

// What the program's exit code says, on every rank (docs/exit-codes.md). A script can tell "run it again with more
// time" from "this input is wrong".
inline constexpr int kExitOptimal = 0;       ///< a plan, proven within the gap asked for
inline constexpr int kExitBadInput = 2;      ///< bad input or usage, or the plan could not be written
inline constexpr int kExitLimitReached = 3;  ///< the time limit came: a plan is written, but not proven
inline constexpr int kExitInfeasible = 4;    ///< no plan fulfils the constraints
inline constexpr int kExitNoSolution = 5;    ///< no plan was found, nor proven not to be
inline constexpr int kExitInvalid = 6;       ///< of --check: it is no solution, or not what its file says
inline constexpr int kExitInternal = 70;     ///< a fault of the program
inline constexpr int kExitStopped = 75;      ///< a signal asked for the end: --resume goes on (EX_TEMPFAIL)

}  // namespace autopar::launch
