#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "io/read_plan.h"
#include "partition/simulate.h"
#include "tests/launch/program.h"

// autopar-search and autopar-plan simulate together.
namespace autopar::launch {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_command;
using testing::run_program;
using testing::Scratch;
using testing::slurp;

const std::string kOverlapped = "'" AUTOPAR_SOURCE_DIR "/tests/plans/overlapped.json'";

Outcome run_simulate(const std::string& arguments) { return run_command("'" AUTOPAR_PLAN "' simulate " + arguments); }

/// What the search wrote for `model` of tests/models.
partition::WrittenPlan searched(const std::string& model, const std::string& arguments) {
  const Scratch scratch;
  const std::string path = scratch.path("plan.json");
  const Outcome outcome = run_program("'" AUTOPAR_SOURCE_DIR "/tests/models/" + model +
                                      ".json' --cluster h100 --quiet -o '" + path + "' " + arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return io::read_plan(path);
}

class SimulateSearchedTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SimulateSearchedTest, without_overlap_the_step_takes_what_the_search_says) {
  for (const std::string arguments : {"--mesh 8", "--mesh 2,4", "--mesh 2,2,2 --random-plan 1",
                                      "--mesh 2,2 --random-plan 2", "--mesh 4 --random-plan 3"}) {
    SCOPED_TRACE(arguments);
    const partition::WrittenPlan plan = searched(GetParam(), "--overlap none " + arguments);
    const partition::Simulation simulation = partition::simulate(plan);
    EXPECT_EQ(simulation.step_ps, plan.cost_ps);
    EXPECT_EQ(simulation.compute_ps, plan.compute_ps);
    EXPECT_EQ(simulation.exposed_ps(), plan.communication_ps);
    EXPECT_EQ(simulation.peak().bytes, plan.memory.peak_bytes);
    EXPECT_EQ(simulation.peak().node, plan.memory.peak_node);
  }
}

TEST_P(SimulateSearchedTest, with_overlap_the_step_is_what_the_windows_say_to_5_percent) {
  for (const std::string mesh : {"8", "2,4"}) {
    SCOPED_TRACE(mesh);
    const partition::WrittenPlan plan = searched(GetParam(), "--mesh " + mesh);
    const partition::Simulation simulation = partition::simulate(plan);
    EXPECT_EQ(simulation.compute_ps, plan.compute_ps);
    EXPECT_GE(simulation.step_ps, simulation.compute_busy_ps);
    EXPECT_LE(simulation.step_ps, plan.compute_ps + plan.communication_ps);
    EXPECT_NEAR(static_cast<double>(simulation.step_ps) / static_cast<double>(plan.cost_ps), 1, 0.05);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SimulateSearchedTest, ::testing::Values("mlp", "normed", "transformer"));

TEST(SimulateProgramTest, the_summary_compares_with_the_plan) {
  const Outcome outcome = run_simulate(kOverlapped);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  // 300, then 150 for what the second op reads, then 300 and the sum inside it, 20; 90 for the backward, 200, 150
  // beside the reduce-scatter's 170; the optimizer's 50.
  EXPECT_THAT(outcome.out, HasSubstr("Simulated step  1.280 ns; the plan says 1.200 ns (+6.67%)\n"));
  EXPECT_THAT(outcome.out, HasSubstr("exposed 280.0 ps (21.9%)\n"));
  EXPECT_THAT(outcome.out, HasSubstr("Memory          2.000 KiB of 4.000 KiB at the peak, one/f/mm at 0 ps\n"));
}

TEST(SimulateProgramTest, json_says_the_same) {
  const Outcome outcome = run_simulate(kOverlapped + " --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  json said = json::parse(outcome.out);
  EXPECT_NEAR(said["difference_percent"].get<double>(), 6.667, 1e-3);
  said.erase("difference_percent");
  EXPECT_EQ(said, json::parse(R"json({"model": "two_layers", "step_ps": 1280, "plan_ps": 1200, "compute_ps": 1000,
      "communication_ps": 580, "exposed_ps": 280, "busy_ps": {"compute": 1000, "mesh_dims": {"dp": 320, "tp": 260}},
      "peak": {"bytes": 2048, "node": "one/f/mm", "time_ps": 0}})json"));
}

TEST(SimulateProgramTest, the_trace_has_a_row_per_stream) {
  const Scratch scratch;
  const Outcome outcome = run_simulate(kOverlapped + " --trace '" + scratch.path("trace.json") + "'");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json trace = json::parse(slurp(scratch.path("trace.json")));
  std::map<std::string, std::string> rows;  // by thread id
  std::map<std::string, double> busy_us;
  for (const json& event : trace["traceEvents"]) {
    const std::string row = event.contains("tid") ? event["tid"].dump() : "";
    if (event["name"] == "thread_name") rows[row] = event["args"]["name"];
    if (event["ph"] == "X") busy_us[rows.at(row)] += event["dur"].get<double>();
  }
  EXPECT_NEAR(busy_us["compute"], 1000e-6, 1e-9);
  EXPECT_NEAR(busy_us["communication, waited for"] + busy_us["communication, ahead"], 580e-6, 1e-9);
}

TEST(SimulateProgramTest, what_cannot_be_used_is_refused) {
  const Scratch scratch;
  const std::string plan = scratch.put("plan.json", slurp(AUTOPAR_SOURCE_DIR "/tests/plans/overlapped.json"));
  const std::string cut_off = scratch.put("cut_off.json", "{\"format\": \"autopar-plan\",");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "plan is required"},
      {"--fast '" + plan + "'", "(--help lists commands and options)"},
      {"/nowhere/plan.json", "/nowhere/plan.json: cannot open"},
      {"'" AUTOPAR_SOURCE_DIR "/examples/tiny/model.json'",
       "format: expected \"autopar-plan\", found \"autopar-model\""},
      {"'" + cut_off + "'", "cut_off.json: line 1"},
      {"'" + plan + "' --trace /nowhere/trace.json", "/nowhere/trace.json: cannot write there"},
      {"'" + plan + "' --trace '" + plan + "'", "the trace would overwrite the plan"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = run_simulate(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, ::testing::StartsWith("autopar-plan: error: "));
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  EXPECT_EQ(scratch.num_files(), 2U);
  EXPECT_EQ(slurp(plan), slurp(AUTOPAR_SOURCE_DIR "/tests/plans/overlapped.json"));
}

}  // namespace
}  // namespace autopar::launch
