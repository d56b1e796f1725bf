#include "launch/simulate/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "io/file.h"
#include "io/input_error.h"
#include "io/read_plan.h"
#include "launch/exit_codes.h"
#include "launch/simulate/report.h"
#include "partition/simulate.h"

namespace autopar::launch {
namespace {

constexpr const char* kFooter = R"(
Exit codes:
  0   done
  2   bad input or usage, or the trace could not be written
  70  internal error

docs/simulate.md says what is modelled. The trace is for https://ui.perfetto.dev or chrome://tracing.)";

struct Arguments {
  std::string plan;
  std::string trace;  ///< empty: none
  bool is_json = false;
};

int fail(std::string_view message) {
  fmt::print(stderr, "autopar-simulate: error: {}\n", message);
  return kExitBadInput;
}

void check_trace(const Arguments& arguments) {
  if (arguments.trace.empty()) return;
  std::error_code error;
  if (std::filesystem::equivalent(arguments.plan, arguments.trace, error)) {
    throw io::InputError(arguments.trace, "", "the trace would overwrite the plan; give it another name");
  }
  io::check_writable(arguments.trace);
}

int run(const Arguments& arguments) {
  try {
    check_trace(arguments);
    const partition::WrittenPlan plan = io::read_plan(arguments.plan);
    const partition::Simulation simulation = partition::simulate(plan);
    if (!arguments.trace.empty()) io::write_file(arguments.trace, chrome_trace(plan, simulation));
    fmt::print("{}", arguments.is_json ? simulation_json(plan, simulation) : simulation_text(plan, simulation));
    if (!arguments.trace.empty() && !arguments.is_json) fmt::print("\nTrace written to {}\n", arguments.trace);
  } catch (const io::InputError& error) {
    return fail(error.what());
  }
  return 0;
}

}  // namespace

int run_simulate(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Runs a plan's timeline on one device and says how long a training step takes.", "autopar-simulate");
  app.footer(kFooter);
  app.set_version_flag("--version", "autopar-simulate " AUTOPAR_VERSION);
  app.add_option("plan", arguments.plan, "plan.json, as autopar-search writes it")->required()->type_name("PLAN");
  app.add_flag("--json", arguments.is_json, "print the summary as JSON");
  app.add_option("--trace", arguments.trace, "write what runs when as a Chrome trace")->type_name("FILE");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::CallForVersion&) {
    fmt::print("autopar-simulate " AUTOPAR_VERSION "\n");
    return 0;
  } catch (const CLI::ParseError& error) {
    return fail(fmt::format("{} (--help lists the options)", error.what()));
  }
  return run(arguments);
}

}  // namespace autopar::launch
