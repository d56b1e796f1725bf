#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "io/read_plan.h"
#include "launch/plan/communication.h"
#include "launch/plan/diff.h"
#include "launch/plan/module_facts.h"
#include "launch/plan/show.h"
#include "partition/simulate.h"
#include "tests/launch/program.h"

// autopar-plan on plans that autopar-search found.
namespace autopar::launch {
namespace {

using nlohmann::json;
using partition::WrittenPlan;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::run_command;
using testing::run_program;
using testing::Scratch;
using testing::slurp;

std::string quoted(const std::string& text) { return "'" + text + "'"; }

std::string model_path(const std::string& name) { return AUTOPAR_SOURCE_DIR "/tests/models/" + name + ".json"; }

Outcome run_plan(const std::string& arguments) { return run_command("'" AUTOPAR_PLAN "' " + arguments); }

/// Searches for a plan of a model of tests/models and returns where it is.
std::string search(const Scratch& scratch, const std::string& file, const std::string& model,
                   const std::string& arguments) {
  const std::string path = scratch.path(file);
  const Outcome outcome =
      run_program(quoted(model_path(model)) + " --cluster h100 --quiet -o " + quoted(path) + " " + arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return path;
}

/// Of the model mlp on 2 x 2 devices.
constexpr const char* kLittleMemory = R"json({"format": "autopar-constraints", "version": 1,
    "memory_limit_bytes": 24000000})json";

std::int64_t cost_of(const std::string& plan) { return io::read_plan(plan).cost_ps; }

class PlanShowTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PlanShowTest, collectives_add_up_to_the_plan_and_what_is_exposed_to_the_timeline) {
  const Scratch scratch;
  for (const std::string arguments : {"--mesh 2,4", "--mesh 8 --overlap none", "--mesh 2,2,2 --random-plan 1"}) {
    SCOPED_TRACE(arguments);
    const WrittenPlan plan = io::read_plan(search(scratch, "plan.json", GetParam(), arguments));
    const partition::Simulation simulation = partition::simulate(plan);
    std::int64_t time_ps = 0;
    std::int64_t exposed_ps = 0;
    for (const CommunicationRow& row : communication_rows(plan, simulation)) {
      time_ps += row.time_ps;
      exposed_ps += row.exposed_ps;
      EXPECT_LE(row.exposed_ps, row.time_ps);
    }
    EXPECT_EQ(time_ps, plan.communication_ps);
    EXPECT_EQ(exposed_ps, simulation.step_ps - simulation.compute_busy_ps);
  }
}

TEST_P(PlanShowTest, every_module_is_told_once) {
  const Scratch scratch;
  const std::string path = search(scratch, "plan.json", GetParam(), "--mesh dp=2,tp=2");
  const WrittenPlan plan = io::read_plan(path);
  const json shown = json::parse(show_json(plan));
  std::multiset<std::string> told;
  for (const json& module : shown["modules"]) {
    EXPECT_EQ(module["mesh_dims"].size(), 2U);
    for (const json& one : module["paths"]) told.insert(one.get<std::string>());
  }
  std::set<std::string> all;
  for (const WrittenPlan::Node& node : plan.nodes) {
    if (node.phase) all.insert(module_of_node(node.key));
  }
  for (const auto& [name, placements] : plan.parameters) all.insert(module_of_parameter(name));
  EXPECT_EQ(told, std::multiset<std::string>(all.begin(), all.end()));
}

INSTANTIATE_TEST_SUITE_P(Models, PlanShowTest, ::testing::Values("mlp", "normed", "transformer"));

TEST(PlanShowTest, layers_cut_by_a_recipe_are_told_in_the_fields_words) {
  const Scratch scratch;
  const std::string recipe = scratch.put("c.json", R"json({"format": "autopar-constraints", "version": 1,
      "parameters": {"*.up.weight": ["S(0)", "S(0)"], "*.up.bias": {"tp": "S(0)"}, "*.down.weight": ["R", "S(1)"]},
      "inputs": {"*": ["S(0)", "R"]}, "nodes": {"*.up/f/addmm": ["S(0)", "S(1)"]}})json");
  const std::string path = search(scratch, "plan.json", "mlp", "--mesh dp=2,tp=2 --constraints " + quoted(recipe));
  std::map<std::string, json> modules;
  const json shown = json::parse(show_json(io::read_plan(path)));
  for (const json& module : shown["modules"]) modules[module["name"]] = module;
  // The search is free to keep one block's gathered weight and not the other's, so these do not fold.
  for (const std::string block : {"blocks.0", "blocks.1"}) {
    const json& up = modules.at(block + ".up");
    EXPECT_THAT(up["mesh_dims"]["dp"].get<std::string>(),
                AllOf(HasSubstr("weight S(0) at rest, gathered"), HasSubstr("data-parallel")));
    EXPECT_THAT(up["mesh_dims"]["tp"].get<std::string>(),
                AllOf(HasSubstr("bias S(0) at rest"), HasSubstr("column-parallel")));
    EXPECT_EQ(up["parameters"], json::parse(R"(["weight bf16[1024,256]", "bias bf16[1024]"])"));
    EXPECT_THAT(modules.at(block + ".down")["mesh_dims"]["tp"].get<std::string>(), HasSubstr("row-parallel"));
  }
  EXPECT_EQ(modules.at("blocks.0-1")["paths"], json::parse(R"(["blocks.0", "blocks.1"])"));
}

TEST(PlanShowTest, a_plan_that_names_no_reads_is_shown_without_matmuls) {
  const Outcome outcome = run_plan("show '" AUTOPAR_SOURCE_DIR "/tests/plans/overlapped.json'");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("1.200 ns, not proven optimal, at most 9.09% above the optimum"),
            HasSubstr("2.000 KiB of 4.000 KiB, one/f/mm"), ::testing::ContainsRegex("dp +all_gather +forward +1"),
            HasSubstr("S(0) at rest, gathered"), HasSubstr("An older autopar-search wrote this plan")));
}

TEST(PlanDiffTest, a_plan_is_what_it_is) {
  const Scratch scratch;
  const std::string path = search(scratch, "plan.json", "transformer", "--mesh 2,2");
  const Outcome outcome = run_plan("diff " + quoted(path) + " " + quoted(path));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Communication is the same"), HasSubstr("All modules are treated alike")));
}

TEST(PlanDiffTest, plans_on_different_meshes_are_compared) {
  const Scratch scratch;
  const std::string a = search(scratch, "a.json", "mlp", "--mesh dp=4");
  const std::string b = search(scratch, "b.json", "mlp", "--mesh dp=2,tp=2");
  const Outcome outcome = run_plan("diff --json " + quoted(a) + " " + quoted(b));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json diff = json::parse(outcome.out);
  EXPECT_EQ(diff["a"]["cost_ps"], cost_of(a));
  EXPECT_EQ(diff["b"]["cost_ps"], cost_of(b));
  EXPECT_TRUE(diff["same_model"]);
  for (const json& module : diff["modules"]) EXPECT_EQ(module["mesh_dims"]["tp"]["a"], "no such mesh dim");
  EXPECT_THAT(run_plan("diff " + quoted(a) + " " + quoted(b)).out, HasSubstr("tp: no such mesh dim  →  "));
}

TEST(PlanDiffTest, a_recipe_stands_for_the_best_plan_under_it) {
  const Scratch scratch;
  const std::string recipe = scratch.put("c.json", R"json({"format": "autopar-constraints", "version": 1,
      "parameters": {"*.up.weight": ["S(1)", "R"]}})json");
  const std::string free = search(scratch, "a.json", "mlp", "--mesh 2,2");
  const std::string bound = search(scratch, "b.json", "mlp", "--mesh 2,2 --constraints " + quoted(recipe));
  const Outcome outcome = run_plan("diff --json " + quoted(free) + " " + quoted(recipe) + " --cluster h100 --model " +
                                   quoted(model_path("mlp")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["b"]["cost_ps"], cost_of(bound));
  EXPECT_THAT(run_plan("diff " + quoted(free) + " " + quoted(recipe)).err, HasSubstr("give the model by --model"));
}

/// What `arguments` of a search under a pin of `pattern` find.
std::int64_t cost_under(const Scratch& scratch, const std::string& model, const std::string& section,
                        const std::string& pattern, const std::string& placements) {
  const std::string pins = scratch.put("pins.json", R"({"format": "autopar-constraints", "version": 1, ")" + section +
                                                        R"(": {")" + pattern + R"(": )" + placements + "}}");
  return cost_of(search(scratch, "pinned.json", model, "--mesh dp=2,tp=2 --constraints " + quoted(pins)));
}

TEST(PlanExplainTest, alternatives_cost_what_a_search_under_that_pin_finds) {
  const Scratch scratch;
  const std::string plan = search(scratch, "plan.json", "mlp", "--mesh dp=2,tp=2");
  const Outcome outcome = run_plan("explain --json --alternatives 100 " + quoted(plan) +
                                   " 'blocks.*.up.weight' --model " + quoted(model_path("mlp")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json tensor = json::parse(outcome.out)["tensors"].at(0);
  EXPECT_EQ(tensor["name"], "blocks.0-1.up.weight");
  std::size_t num_chosen = 0;
  for (const json& chosen : tensor["chosen"]) num_chosen += chosen["count"].get<std::size_t>();
  EXPECT_EQ(num_chosen, 2U);
  // R, S(0), S(1) on each mesh dim.
  EXPECT_EQ(tensor["alternatives"].size() + (tensor["chosen"].size() == 1 ? 1 : 0), 9U);
  for (const json& alternative : tensor["alternatives"]) {
    SCOPED_TRACE(alternative.dump());
    EXPECT_EQ(alternative["plan"]["cost_ps"],
              cost_under(scratch, "mlp", "parameters", "blocks.*.up.weight", alternative["placements"].dump()));
    EXPECT_GE(alternative["more_ps"], 0);
  }
  ASSERT_EQ(tensor["blocked"].size(), 2U);
  EXPECT_EQ(tensor["blocked"][0]["placement"], "P(sum)");
  EXPECT_EQ(tensor["blocked"][0]["reason"], "rule");
}

TEST(PlanExplainTest, says_what_blocks_a_placement) {
  const Scratch scratch;
  const std::string pins = scratch.put("c.json", R"json({"format": "autopar-constraints", "version": 1,
      "parameters": {"*.up.weight": {"tp": "R"}}})json");
  const std::string plan =
      search(scratch, "plan.json", "transformer", "--mesh dp=2,tp=4 --constraints " + quoted(pins));
  const std::string model = " --model " + quoted(model_path("transformer")) + " --constraints " + quoted(pins);
  const Outcome pinned = run_plan("explain " + quoted(plan) + " layers.0.up.weight --want tp='Shard(0)'" + model);
  ASSERT_EQ(pinned.exit_code, 0) << pinned.err;
  EXPECT_THAT(pinned.out,
              HasSubstr("tp S(0) is not possible (pin): " + pins + ": parameters[\"*.up.weight\"] wants R"));
  // 3 sequences and 4 devices.
  const Outcome size = run_plan("explain " + quoted(plan) + " layers.0/f/silu --want 'tp=S(0)'" + model);
  EXPECT_THAT(size.out, HasSubstr("tp S(0) is not possible (size): dim 0 has size 3, less than 4 devices"));
  const Outcome rule = run_plan("explain " + quoted(plan) + " layers.0/f/silu --want 'dp=P(sum)'" + model);
  EXPECT_THAT(rule.out, HasSubstr("dp P(sum) is not possible (rule): no way to run aten.silu.default gives that"));
}

TEST(PlanExplainTest, memory_blocks_too) {
  const Scratch scratch;
  const std::string limit = scratch.put("c.json", kLittleMemory);
  const std::string plan = search(scratch, "plan.json", "mlp", "--mesh dp=2,tp=2 --constraints " + quoted(limit));
  const Outcome outcome = run_plan("explain " + quoted(plan) + " 'blocks.*.*.weight' --want R,R --model " +
                                   quoted(model_path("mlp")) + " --constraints " + quoted(limit));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("dp R, tp R: no plan keeps within 22.89 MiB of memory"));
}

TEST(PlanExplainTest, a_module_is_its_parameters_and_what_it_computes_with_them) {
  const Scratch scratch;
  const std::string plan = search(scratch, "plan.json", "mlp", "--mesh dp=2,tp=2");
  const Outcome outcome = run_plan("explain --json --alternatives 1 " + quoted(plan) + " blocks.0-1.up --model " +
                                   quoted(model_path("mlp")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::vector<std::string> names;
  const json said = json::parse(outcome.out);
  for (const json& tensor : said["tensors"]) names.push_back(tensor["name"]);
  EXPECT_THAT(names, ::testing::ElementsAre("blocks.0-1.up.weight", "blocks.0-1.up.bias", "blocks.0-1.up/f/addmm"));
}

TEST(PlanWhatIfTest, finds_what_a_search_under_the_pins_finds) {
  const Scratch scratch;
  const std::string plan = search(scratch, "plan.json", "mlp", "--mesh dp=2,tp=2");
  const std::string tp_is_cut = R"json({"tp": "S(1)"})json";
  const std::int64_t wanted = cost_under(scratch, "mlp", "parameters", "blocks.*.up.weight", tp_is_cut);
  const std::string yaml = scratch.put("pins.yaml", "# all layers\n'*.up.weight': {tp: Shard(1)}\n");
  const std::string rest = " --json " + quoted(plan) + " --model " + quoted(model_path("mlp"));
  for (const std::string& pins : {std::string("--pin 'blocks.0-1.up.weight: {tp: S(1)}'"), "--pins " + quoted(yaml)}) {
    SCOPED_TRACE(pins);
    const std::string output = scratch.path("new.json");
    const Outcome outcome = run_plan("what-if " + pins + rest + " -o " + quoted(output));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(json::parse(outcome.out)["b"]["cost_ps"], wanted);
    EXPECT_EQ(cost_of(output), wanted);
    EXPECT_EQ(costs::to_string((*io::read_plan(output).nodes.at(0).outputs[0])[1]), "S(1)");
    const Outcome next =
        run_plan("explain " + quoted(output) + " blocks.0.up.weight --want 'tp=S(1),dp=S(9)' --model " +
                 quoted(model_path("mlp")) + " --constraints " + quoted(scratch.path("new.constraints.json")));
    EXPECT_EQ(next.exit_code, 0) << next.err;
    EXPECT_THAT(next.out, HasSubstr("dp S(9) is not possible (size): the tensor has 2 dims"));
  }
}

TEST(PlanWhatIfTest, a_modules_pin_is_for_what_its_parameters_can_have) {
  const Scratch scratch;
  const std::string plan = search(scratch, "plan.json", "mlp", "--mesh dp=2,tp=2");
  const std::string output = scratch.path("new.json");
  const Outcome outcome = run_plan("what-if " + quoted(plan) + " --pin 'blocks.*.down: {tp: S(1)}' --model " +
                                   quoted(model_path("mlp")) + " -o " + quoted(output));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const WrittenPlan found = io::read_plan(output);
  for (const auto& [name, placements] : found.parameters) {
    if (name.ends_with("down.weight")) {
      EXPECT_EQ(costs::to_string(placements[1]), "S(1)");
    }
  }
}

TEST(PlanWhatIfTest, pins_that_the_plan_fulfils_change_nothing) {
  const Scratch scratch;
  const std::string path = search(scratch, "plan.json", "mlp", "--mesh dp=2,tp=2");
  const WrittenPlan plan = io::read_plan(path);
  const auto& [name, placements] = plan.parameters.front();
  const Outcome outcome =
      run_plan("what-if " + quoted(path) + " --pin '" + name + ": {dp: " + costs::to_string(placements[0]) +
               "}' --model " + quoted(model_path("mlp")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("already does what the pins ask"));
}

TEST(PlanWhatIfTest, pins_that_cannot_be_are_named) {
  const Scratch scratch;
  const std::string limit = scratch.put("c.json", kLittleMemory);
  const std::string plan = search(scratch, "plan.json", "mlp", "--mesh dp=2,tp=2 --constraints " + quoted(limit));
  const std::string rest =
      " " + quoted(plan) + " --model " + quoted(model_path("mlp")) + " --constraints " + quoted(limit);
  const Outcome memory = run_plan(
      "what-if --pin '*.up.weight: [R, R]' --pin '*.down.weight: [R, R]' --pin '*.up.bias: {dp: S(0)}'" + rest);
  EXPECT_EQ(memory.exit_code, 4) << memory.out;
  EXPECT_THAT(memory.err, AllOf(HasSubstr("no plan keeps within"), HasSubstr("without the pin"), HasSubstr("up.weight"),
                                Not(HasSubstr("up.bias"))));
  const Outcome rule = run_plan("what-if --pin 'blocks.0/f/gelu: {tp: P(sum)}'" + rest);
  EXPECT_EQ(rule.exit_code, 4);
  EXPECT_THAT(rule.err, AllOf(HasSubstr("\"blocks.0/f/gelu\""), HasSubstr("--pin: nodes")));
}

TEST(PlanReportTest, hands_its_arguments_to_python) {
  const Scratch scratch;
  const std::string python = scratch.put("python3", "#!/bin/sh\n[ \"$1\" = -c ] && exit 0\necho \"$@\"\n");
  const std::string path = "chmod +x " + quoted(python) + " && PATH=" + quoted(scratch.path("")) + ":$PATH ";
  EXPECT_EQ(run_command(path + "'" AUTOPAR_PLAN "' report plan.json -o out.html").out,
            "-m autopar report plan.json -o out.html\n");
  scratch.put("python3", "#!/bin/sh\nexit 1\n");
  const Outcome none = run_command(path + "'" AUTOPAR_PLAN "' report plan.json");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("python3 has no package autopar; install it with"));
}

TEST(PlanProgramTest, what_cannot_be_used_is_refused) {
  const Scratch scratch;
  const std::string plan = search(scratch, "plan.json", "mlp", "--mesh dp=2,tp=2");
  const std::string random = search(scratch, "random.json", "mlp", "--mesh dp=2,tp=2 --random-plan 1");
  const std::string pins = scratch.put("c.json", R"({"format": "autopar-constraints", "version": 1})");
  const std::string under = search(scratch, "under.json", "mlp", "--mesh dp=2,tp=2 --constraints " + quoted(pins));
  const std::string twice = scratch.put("twice.yaml", "a: {tp: R}\na: {tp: R}\n");
  const std::string star = scratch.put("star.yaml", "*.w: {tp: R}\n");
  const std::string mlp = " --model " + quoted(model_path("mlp"));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "expected a command: show, simulate, diff, explain, what-if, report"},
      {"shwo", "unknown command \"shwo\"; expected show, simulate"},
      {"show", "plan is required"},
      {"show /nowhere", "/nowhere: cannot open"},
      {"diff " + quoted(plan), "b is required"},
      {"diff " + quoted(plan) + " " + quoted(plan) + mlp, "is a plan; --model and --cluster are for constraints"},
      {"explain " + quoted(plan) + " blocks.0.up", "--model is required"},
      {"explain " + quoted(plan) + " blocks.0.up --model " + quoted(model_path("normed")),
       "was made from another model"},
      {"explain " + quoted(random) + " blocks.0.up" + mlp, "a random plan answers no search"},
      {"explain " + quoted(plan) + " blocks.0.upp" + mlp, "the nearest are blocks.0.up"},
      {"explain " + quoted(plan) + " '*/b/*'" + mlp, "ask for some of them"},
      {"explain " + quoted(plan) + " blocks.0.up --want 'S(0)'" + mlp, "--want: not one placement for each mesh dim"},
      {"explain " + quoted(plan) + " blocks.0.up --want 'ep=S(0)'" + mlp, "--want: there is no mesh dim \"ep\""},
      {"explain " + quoted(under) + " blocks.0.up" + mlp, "give it by --constraints"},
      {"explain " + quoted(plan) + " blocks.0.up --constraints " + quoted(pins) + mlp,
       "was made from another constraints file"},
      {"what-if " + quoted(plan) + mlp, "what-if: expected --pin or --pins"},
      {"what-if " + quoted(plan) + " --pin blocks.0.up" + mlp, "--pin: \"blocks.0.up\": expected PATTERN: PLACEMENTS"},
      {"what-if " + quoted(plan) + " --pin 'blocks.0.up: R'" + mlp, "\"R\" are no placements"},
      {"what-if " + quoted(plan) + " --pin 'blocks.0.upp: {tp: R}'" + mlp,
       "--pin: blocks.0.upp: the model has no parameter, input, output, node or module of this name; the nearest are "
       "blocks.0.up"},
      {"explain " + quoted(plan) + " down.bias" + mlp, "the nearest are blocks.0.down.bias"},
      {"what-if " + quoted(plan) + " --pin 'blocks.0.up: {tp: R}' -o " + quoted(plan) + mlp,
       "the new plan would overwrite the plan"},
      {"what-if " + quoted(plan) + " --pin 'blocks.0.up: {tp: R}' --pin 'blocks.0.up: {tp: S(0)}'" + mlp,
       "is pinned to"},
      {"what-if " + quoted(plan) + " --pin 'blocks.0: {tp: R}'" + mlp, "have no parameters of their own"},
      {"what-if " + quoted(plan) + " --pin 'blocks.0.up: {tp: X}'" + mlp, "expected R, S(dim) or P(sum), found \"X\""},
      {"what-if " + quoted(plan) + " --pins " + quoted(twice) + mlp,
       "twice.yaml: line 2, column 1: \"a\" is there twice"},
      {"what-if " + quoted(plan) + " --pins " + quoted(star) + mlp, "star.yaml: line 1"},
      {"what-if " + quoted(plan) + " --pin 'blocks.0.up: {tp: R}' -o /nowhere/x.json" + mlp,
       "/nowhere/x.json: cannot write there"},
  };
  for (const auto& [arguments, message] : cases) {
    SCOPED_TRACE(arguments);
    const Outcome outcome = run_plan(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, ::testing::StartsWith("autopar-plan: error: "));
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
}

}  // namespace
}  // namespace autopar::launch
