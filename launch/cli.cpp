#include "launch/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "io/input_error.h"
#include "io/read_mesh.h"
#include "launch/exit_codes.h"

namespace autopar::launch {
namespace {

constexpr const char* kFooter = R"(
Exit codes:
  0   plan or solution written, proven within the gap; of --check: it is a solution
  2   bad input or usage, or the output could not be written
  3   time limit reached: plan or solution written, not proven
  4   infeasible: no plan or solution fulfils the constraints
  5   no plan or solution found, nor proven not to be
  6   of --check: it is no solution, or not what its file says
  75  stopped by a signal: the best so far is written, and --resume goes on
  70  internal error

Several ranks: mpirun -n 64 autopar-search model.json
The plan does not depend on the number of ranks or threads unless the time limit stops the search.)";

constexpr double kLongestLimitS = 1e9;
constexpr int kMostThreads = 4096;

/// CLI11 alone wraps negative numbers and takes empty text for no seed at all.
std::string seed_fault(const std::string& text) {
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? "" : fmt::format("\"{}\" is not a seed; expected a whole number from 0 on", text);
}

CLI::Validator number_in(double least, double most) {
  // CLI11's range lets "nan" through: it is neither below nor above anything.
  const auto nan_fault = [](const std::string& text) {
    double value = 0;
    const bool is_nan = CLI::detail::lexical_cast(text, value) && std::isnan(value);
    return is_nan ? fmt::format("\"{}\" is not a number", text) : "";
  };
  return CLI::Range(least, most).description("") & CLI::Validator(nan_fault, "");
}

/// Of a model only: a cost table has no mesh, no cluster, and nothing that could overlap.
constexpr std::array<const char*, 8> kModelOptions = {"--mesh",           "--devices",     "--max-mesh-dims",
                                                      "--cluster",        "--constraints", "--overlap",
                                                      "--export-problem", "--random-plan"};

const std::map<std::string, bool engine::PresolveSteps::*> kPresolveSteps = {
    {"dominate", &engine::PresolveSteps::dominate},
    {"eliminate", &engine::PresolveSteps::eliminate},
    {"contract", &engine::PresolveSteps::contract},
    {"fold", &engine::PresolveSteps::fold},
    {"usage", &engine::PresolveSteps::usage}};

void add_options(CLI::App& app, Arguments& arguments, std::string& mesh) {
  app.add_option("model", arguments.model,
                 "model.json as autopar.export writes it, or a cost table (docs/cost-tables.md); .gz or not")
      ->required()
      ->type_name("MODEL");
  app.add_option("solution", arguments.solution, "with --check: solution.json, or a list such as [0, 1, 2]")
      ->type_name("SOLUTION");
  app.add_flag("--check", arguments.check, "evaluate SOLUTION for the cost table MODEL, and search for nothing");
  app.add_option("-o,--output", arguments.output,
                 "where the plan or solution goes; default: MODEL's name with .plan.json or .solution.json")
      ->type_name("FILE");
  CLI::Option* sizes =
      app.add_option("--mesh", mesh, "sizes of the mesh dims, outermost first: 8,4 or dp=8,tp=4")->type_name("SIZES");
  CLI::Option* devices =
      app.add_option("--devices", arguments.devices, "in place of --mesh: choose the best mesh of so many devices")
          ->type_name("N")
          ->check(CLI::Range(std::int64_t{1}, io::kMaxDevices).description(""))
          ->excludes(sizes);
  app.add_option("--max-mesh-dims", arguments.max_mesh_dims,
                 fmt::format("with --devices: most dims of the mesh; default: {}", arguments.max_mesh_dims))
      ->type_name("N")
      ->check(CLI::Range(1, costs::kMaxMeshDims).description(""))
      ->needs(devices);
  app.add_option("--cluster", arguments.cluster, "name of a cluster description, or a .json file of one")
      ->type_name("NAME|FILE");
  app.add_option("--constraints", arguments.constraints, "pins and the memory limit")->type_name("FILE");
  app.add_option("--time-limit", arguments.engine.time_limit_s, "seconds of search; default: none")
      ->type_name("SECONDS")
      ->check(number_in(1e-3, kLongestLimitS));
  app.add_option("--gap", arguments.engine.gap, "stop when this close to the optimum: 0.01 is 1%; default: 0")
      ->type_name("FRACTION")
      ->check(number_in(0, 1));
  app.add_option("--threads", arguments.engine.threads, "threads of each rank; default: all cores")
      ->type_name("N")
      ->check(CLI::Range(1, kMostThreads).description(""));
  app.add_option("--overlap", arguments.has_overlap,
                 "model: parameters are gathered ahead and gradients reduced behind compute; none: all communication "
                 "is waited for; default: model")
      ->type_name("none|model")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, bool>{{"model", true}, {"none", false}}).description(""));
  app.add_option("--export-problem", arguments.export_problem,
                 "write the model's choices as a cost table, and search for nothing")
      ->type_name("FILE")
      ->excludes(devices);
  app.add_flag("--deterministic", arguments.is_deterministic,
               "of a cost table: count work, not time, so that every machine finds the same; on rank 0 alone");
  app.add_option_function<std::vector<std::string>>(
         "--skip-presolve",
         [&arguments](const std::vector<std::string>& steps) {
           for (const std::string& step : steps) arguments.presolve.*kPresolveSteps.at(step) = false;
         },
         "of a cost table: steps not to take, of dominate, eliminate, contract, fold, usage, separated by commas")
      ->type_name("STEPS")
      ->delimiter(',')
      ->check(CLI::IsMember(kPresolveSteps).description(""));
  app.add_flag("--resume", arguments.resume,
               "go on from the checkpoint that an earlier run left beside the output, if there is one");
  app.add_option("--checkpoint-interval", arguments.checkpoint_interval_s,
                 fmt::format("seconds between checkpoints (FILE.checkpoint); 0: none; default: {}",
                             arguments.checkpoint_interval_s))
      ->type_name("SECONDS")
      ->check(number_in(0, kLongestLimitS));
  app.add_option("--log-dir", arguments.log_dir, "folder for a log of each rank, and tables of times and tasks")
      ->type_name("DIR");
  app.add_flag("--reproducible", arguments.reproducible,
               "leave out of the plan what differs between runs (ranks, threads, times)");
  app.add_option("--random-plan", arguments.random_plan,
                 "write a random plan that is allowed, not the best one; the same seed gives the same plan")
      ->type_name("SEED")
      ->check(CLI::Validator(seed_fault, ""))
      ->excludes(devices)
      ->group("Debugging");
  CLI::Option* quiet = app.add_flag("-q,--quiet", arguments.quiet, "no summary and no progress");
  app.add_flag("-v,--verbose", arguments.verbose, "a line on stderr for each step, better plan and bound")
      ->excludes(quiet);
}

}  // namespace

std::string default_output(const std::string& model, std::string_view kind) {
  std::string stem = model;
  if (stem.ends_with(".gz")) stem.resize(stem.size() - 3);
  if (stem.ends_with(".json")) stem.resize(stem.size() - 5);
  return fmt::format("{}.{}.json", stem, kind);
}

costs::Mesh parse_mesh(const std::string& text) {
  const auto fail = [&](const std::string& why) {
    throw io::InputError("--mesh", "", fmt::format("{} in \"{}\"; expected 8,4 or dp=8,tp=4", why, text));
  };
  costs::Mesh mesh;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    if (const std::size_t equals = part.find('='); equals != std::string::npos) {
      mesh.dim_names.push_back(part.substr(0, equals));
      part.erase(0, equals + 1);
    }
    std::int64_t size = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), size);
    if (error != std::errc{} || rest != part.data() + part.size()) fail(fmt::format("\"{}\" is not a size", part));
    mesh.shape.push_back(size);
  }
  if (!mesh.dim_names.empty() && mesh.dim_names.size() != mesh.shape.size()) fail("some dims have no name");
  costs::Mesh named = mesh;
  if (named.dim_names.empty()) named.dim_names = io::default_dim_names(mesh.shape.size());
  if (const auto fault = io::mesh_fault(named)) throw io::InputError("--mesh", "", *fault);
  return mesh;
}

CommandLine parse_command_line(int argc, char** argv) {
  CommandLine line;
  std::string mesh;
  CLI::App app("Finds how to parallelise the training step of a PyTorch model and writes the plan.", "autopar-search");
  app.footer(kFooter);
  app.set_version_flag("--version", "autopar-search " AUTOPAR_VERSION);
  add_options(app, line.arguments, mesh);
  try {
    app.parse(argc, argv);
    // Not by CLI11, which would look at this before it refuses options that it does not know.
    if (line.arguments.check && line.arguments.solution.empty()) throw CLI::RequiresError("--check", "SOLUTION");
    if (!line.arguments.check && !line.arguments.solution.empty()) throw CLI::RequiresError("SOLUTION", "--check");
    for (const char* option : kModelOptions) {
      if (app.count(option) > 0) line.arguments.model_options.emplace_back(option);
    }
    if (!mesh.empty()) line.arguments.mesh = parse_mesh(mesh);
  } catch (const CLI::CallForHelp&) {
    line.exit_code = 0;
    line.text = app.help();
  } catch (const CLI::CallForVersion&) {
    line.exit_code = 0;
    line.text = "autopar-search " AUTOPAR_VERSION "\n";
  } catch (const CLI::ParseError& error) {
    line.exit_code = kExitBadInput;
    line.text = fmt::format("{} (--help lists the options)", error.what());
  } catch (const io::InputError& error) {
    line.exit_code = kExitBadInput;
    line.text = error.what();
  }
  return line;
}

}  // namespace autopar::launch
