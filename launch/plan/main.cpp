#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "launch/exit_codes.h"
#include "launch/plan/program.h"

int main(int argc, char** argv) {
  try {
    return autopar::launch::run_plan_program(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "autopar-plan: internal error: {}; please report it with the plan\n", error.what());
    return autopar::launch::kExitInternal;
  }
}
