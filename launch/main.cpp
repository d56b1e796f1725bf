#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "engine/comm.h"
#include "launch/exit_codes.h"
#include "launch/program.h"

int main(int argc, char** argv) {
  autopar::engine::Comm comm(argc, argv);
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
