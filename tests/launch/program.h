#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/io/scratch.h"

namespace autopar::testing {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// Runs a shell command and waits for it.
inline Outcome run_command(const std::string& command) {
  const Scratch scratch;
  const std::string line =
      "( " + command + " ) >'" + scratch.path("out") + "' 2>'" + scratch.path("err") + "' </dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(scratch.path("out")), slurp(scratch.path("err"))};
}

inline Outcome run_program(const std::string& arguments) { return run_command("'" AUTOPAR_PROGRAM "' " + arguments); }

/// On `ranks` ranks of this machine, more than it has cores if need be.
inline Outcome run_ranks(int ranks, const std::string& arguments) {
  return run_command(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_hwloc_base_binding_policy=none "
      "timeout --foreground -k 10 60 mpirun --oversubscribe -n " +
      std::to_string(ranks) + " '" AUTOPAR_PROGRAM "' " + arguments);
}

}  // namespace autopar::testing
