#pragma once

namespace autopar::launch {

/// The program autopar-plan: what people ask of plans (docs/plan-tools.md), a subcommand each. Returns the exit code
/// (exit_codes.h). Throws only on internal errors.
int run_plan_program(int argc, char** argv);

}  // namespace autopar::launch
