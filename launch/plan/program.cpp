#include "launch/plan/program.h"

#include <fmt/format.h>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "costs/rules/rule.h"
#include "io/file.h"
#include "io/input_error.h"
#include "io/read_plan.h"
#include "launch/exit_codes.h"
#include "launch/plan/diff.h"
#include "launch/plan/explain_choice.h"
#include "launch/plan/replan.h"
#include "launch/plan/show.h"
#include "launch/plan/simulation_report.h"
#include "launch/plan/what_if.h"
#include "partition/simulate.h"

namespace autopar::launch {
namespace {

constexpr const char* kFooter = R"(
Each command has a --help of its own. Exit codes:
  0   done
  2   bad input or usage, or an output could not be written
  4   what-if, diff with a recipe: no plan does what is asked
  5   as 4, but that is not proven
  70  internal error

docs/plan-tools.md shows each with its output.)";

constexpr int kMostAlternatives = 1000;
constexpr const char* kPlanHelp = "plan.json, as autopar-search writes it; .gz or not";

int fail(std::string_view message) {
  fmt::print(stderr, "autopar-plan: error: {}\n", message);
  return kExitBadInput;
}

bool is_constraints(const std::string& text) {
  // Cheaper than to read a whole plan twice: the format is among the first keys.
  constexpr std::size_t kHead = 4096;
  return std::string_view(text).substr(0, kHead).find("\"autopar-constraints\"") != std::string_view::npos;
}

/// `python3 -m autopar report` in this program's place. Returns only if that is not possible.
int run_report(const std::vector<std::string>& arguments) {
  constexpr const char* kIsThere =
      "python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec(\"autopar\") is None)' 2>/dev/null";
  if (std::system(kIsThere) != 0) {
    return fail(
        "report: python3 has no package autopar; install it with: pip install -e . (in autopar-search), or "
        "activate the environment that has it (source .venv/bin/activate)");
  }
  std::vector<const char*> command = {"python3", "-m", "autopar", "report"};
  for (const std::string& argument : arguments) command.push_back(argument.c_str());
  command.push_back(nullptr);
  ::execvp(command.front(), const_cast<char* const*>(command.data()));
  return fail(fmt::format("report: python3 cannot be started: {}", std::strerror(errno)));
}

/// What each subcommand is asked for. CLI11 fills it while it parses, and the command chosen runs behind that.
class Program {
 public:
  Program() : app_("Shows, questions and compares the plans that autopar-search writes.", "autopar-plan") {
    app_.footer(kFooter);
    app_.set_version_flag("--version", "autopar-plan " AUTOPAR_VERSION);
    app_.require_subcommand(1);
    add_show();
    add_simulate();
    add_diff();
    add_explain();
    add_what_if();
    add_report();
  }

  int run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      fmt::print("{}", app_.help());
      return 0;
    } catch (const CLI::CallForVersion&) {
      fmt::print("autopar-plan " AUTOPAR_VERSION "\n");
      return 0;
    } catch (const CLI::ParseError& error) {
      if (!app_.get_subcommands().empty() || (argc > 1 && argv[1][0] == '-')) {
        return fail(fmt::format("{} (--help lists commands and options)", error.what()));
      }
      return fail(argc > 1 ? fmt::format("unknown command \"{}\"; expected {}", argv[1], command_names())
                           : fmt::format("expected a command: {} (--help says what they do)", command_names()));
    }
    try {
      return chosen_();
    } catch (const io::InputError& error) {
      return fail(error.what());
    } catch (const costs::NodeError& error) {
      return fail(fmt::format("{}: {}", inputs_.model, error.what()));
    }
  }

 private:
  std::string command_names() const {
    std::vector<std::string> names;
    for (const CLI::App* command : app_.get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(command->get_name());
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }

  CLI::App* add_command(const char* name, const char* description, std::function<int()> run) {
    CLI::App* command = app_.add_subcommand(name, description);
    command->callback([this, run = std::move(run)] { chosen_ = run; });
    return command;
  }

  /// A command about one plan.
  CLI::App* add_plan_command(const char* name, const char* description, std::function<int()> run) {
    CLI::App* command = add_command(name, description, std::move(run));
    command->add_option("plan", plan_, kPlanHelp)->required()->type_name("PLAN");
    command->add_flag("--json", is_json_, "print JSON");
    return command;
  }

  void add_show() {
    add_plan_command("show", "What a plan does: times, memory, collectives, and each module, equal layers folded.",
                     [this] {
                       const partition::WrittenPlan plan = io::read_plan(plan_);
                       fmt::print("{}", is_json_ ? show_json(plan) : show_text(plan));
                       return 0;
                     });
  }

  void add_simulate() {
    CLI::App* command = add_plan_command(
        "simulate", "Runs a plan's timeline on one device and says how long a training step takes (docs/simulate.md).",
        [this] { return simulate(); });
    command->add_option("--trace", trace_, "write what runs when, for https://ui.perfetto.dev or chrome://tracing")
        ->type_name("FILE");
  }

  int simulate() const {
    check_output(trace_, "trace");
    const partition::WrittenPlan plan = io::read_plan(plan_);
    const partition::Simulation simulation = partition::simulate(plan);
    if (!trace_.empty()) io::write_file(trace_, chrome_trace(plan, simulation));
    fmt::print("{}", is_json_ ? simulation_json(plan, simulation) : simulation_text(plan, simulation));
    if (!trace_.empty() && !is_json_) fmt::print("\nTrace written to {}\n", trace_);
    return 0;
  }

  /// `file`: empty if there is none.
  void check_output(const std::string& file, std::string_view what) const {
    if (file.empty()) return;
    std::error_code error;
    if (std::filesystem::equivalent(plan_, file, error)) {
      throw io::InputError(file, "", fmt::format("the {} would overwrite the plan; give it another name", what));
    }
    io::check_writable(file);
  }

  void add_diff() {
    CLI::App* command =
        add_command("diff", "What differs between two plans, also of different meshes, or a plan and a recipe.",
                    [this] { return diff(); });
    command->add_option("a", plan_, kPlanHelp)->required()->type_name("A");
    command
        ->add_option("b", other_,
                     "another; or, with --model, constraints: the best plan under them on A's mesh is searched for")
        ->required()
        ->type_name("B");
    command->add_flag("--json", is_json_, "print JSON");
    command->add_option("--model", inputs_.model, "model.json that A was made from; needed if B is constraints")
        ->type_name("MODEL");
    add_cluster(command);
  }

  int diff() {
    const partition::WrittenPlan a = io::read_plan(plan_);
    const std::string text = io::read_file(other_);
    if (!is_constraints(text)) {
      if (!inputs_.model.empty() || !inputs_.cluster.empty()) {
        throw io::InputError(other_, "", "is a plan; --model and --cluster are for constraints in its place");
      }
      return say(a, io::parse_plan(other_, text));
    }
    if (inputs_.model.empty()) {
      throw io::InputError(other_, "",
                           "are constraints; give the model by --model, to search for the best plan under them");
    }
    PlanInputs inputs = inputs_;
    // The plan's own constraints are not asked for: B's are in their place.
    partition::WrittenPlan free = a;
    free.constraints_hash.reset();
    Replanner replanner(plan_, free, inputs);
    const PlanOrAnswer found = plan_under(replanner, other_, text);
    return found.plan ? say(a, *found.plan) : answer(found.why_not);
  }

  int say(const partition::WrittenPlan& a, const partition::WrittenPlan& b) const {
    const NamedPlan named_a{plan_, a};
    const NamedPlan named_b{other_, b};
    fmt::print("{}", is_json_ ? diff_as_json(named_a, named_b).dump(1) + "\n" : diff_text(named_a, named_b));
    return 0;
  }

  static int answer(const Answer& answer) {
    if (answer.exit_code == kExitOptimal) {
      fmt::print("{}", answer.text);
    } else {
      fmt::print(stderr, "autopar-plan: {}\n", answer.text);
    }
    return answer.exit_code;
  }

  void add_cluster(CLI::App* command) {
    command->add_option("--cluster", inputs_.cluster, "the plan's cluster description, if that is a file of your own")
        ->type_name("NAME|FILE");
  }

  /// A command that searches again.
  CLI::App* add_searching_command(const char* name, const char* description, std::function<int()> run) {
    CLI::App* command = add_plan_command(name, description, std::move(run));
    command->add_option("--model", inputs_.model, "model.json that the plan was made from")
        ->required()
        ->type_name("MODEL");
    command->add_option("--constraints", inputs_.constraints, "the constraints file that it was searched under, if any")
        ->type_name("FILE");
    add_cluster(command);
    return command;
  }

  void add_explain() {
    CLI::App* command = add_searching_command(
        "explain",
        "What was chosen for a tensor, what else there was and what it would cost, and what is not possible.", [this] {
          const partition::WrittenPlan plan = io::read_plan(plan_);
          Replanner replanner(plan_, plan, inputs_);
          fmt::print("{}", explain_choice(replanner, explain_, is_json_));
          return 0;
        });
    command->add_option("name", explain_.name, "a parameter, node or module; globs and folded names, too")
        ->required()
        ->type_name("NAME");
    command->add_option("--want", explain_.want, "ask about these placements: S(0),R, or tp=R")
        ->type_name("PLACEMENTS");
    command
        ->add_option(
            "--alternatives", explain_.alternatives,
            fmt::format("most alternatives that are searched for, of each tensor; default: {}", explain_.alternatives))
        ->type_name("N")
        ->check(CLI::Range(1, kMostAlternatives).description(""));
  }

  void add_what_if() {
    CLI::App* command =
        add_searching_command("what-if", "The best plan under some pins, compared with the plan.", [this] {
          if (pins_.empty()) {
            return fail("what-if: expected --pin or --pins, such as --pin 'layers.*.mlp.w1: {tp: Shard(0)}'");
          }
          check_output(output_, "new plan");
          const partition::WrittenPlan plan = io::read_plan(plan_);
          Replanner replanner(plan_, plan, inputs_);
          return answer(what_if(replanner, pins_, output_, is_json_));
        });
    command
        ->add_option("--pin", pins_.pins,
                     "'PATTERN: PLACEMENTS', such as 'layers.*.mlp.w1: {tp: Shard(0)}'; again for more")
        ->type_name("PIN")
        ->allow_extra_args(false);
    command->add_option("--pins", pins_.file, ".yaml or .json file of such pins, or of constraints")->type_name("FILE");
    command->add_option("-o,--output", output_, "where the plan goes that is found; default: nowhere")
        ->type_name("FILE");
  }

  void add_report() {
    CLI::App* command = app_.add_subcommand(
        "report", "Writes a report of a plan as one HTML file (docs/report.md); takes Python's options.");
    command->set_help_flag();
    command->prefix_command();
    command->callback([this, command] {
      std::vector<std::string> arguments = command->remaining();
      chosen_ = [arguments = std::move(arguments)] { return run_report(arguments); };
    });
  }

  CLI::App app_;
  std::function<int()> chosen_;
  std::string plan_;
  bool is_json_ = false;
  std::string trace_;   // empty: none
  std::string other_;   // the second plan of a comparison
  std::string output_;  // empty: none
  PlanInputs inputs_;
  ExplainArguments explain_;
  PinArguments pins_;
};

}  // namespace

int run_plan_program(int argc, char** argv) { return Program().run(argc, argv); }

}  // namespace autopar::launch
