#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "engine/comm.h"
#include "engine/launcher.h"
#include "launch/exit_codes.h"
#include "launch/program.h"

namespace {

int run_with(autopar::engine::Comm& comm, int argc, char** argv) {
  try {
    return autopar::launch::run(argc, argv, comm);
  } catch (const std::exception& error) {
    // One rank that only left would hang the others.
    fmt::print(stderr, "autopar-search: internal error on rank {}: {}; please report it with the input files\n",
               comm.rank(), error.what());
    std::fflush(stderr);
    comm.abort(autopar::launch::kExitInternal);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    autopar::engine::Comm comm(argc, argv);
    return run_with(comm, argc, argv);
  } catch (const autopar::engine::LaunchError& error) {
    if (*error.what() != '\0') fmt::print(stderr, "autopar-search: error: {}\n", error.what());
    return autopar::launch::kExitBadInput;
  }
}
