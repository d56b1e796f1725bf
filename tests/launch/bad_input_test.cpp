#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "tests/launch/program.h"

// Every file of tests/broken is given to the program, which has to say in one line what is wrong and where, to leave
// with exit code 2 and to write nothing.
namespace autopar::launch {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_program;
using testing::run_ranks;
using testing::Scratch;

const std::string kBroken = AUTOPAR_SOURCE_DIR "/tests/broken/";
const std::string kValid = kBroken + "model/valid.json";

void expect_refused(const Outcome& outcome, const std::string& message, const Scratch& scratch) {
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, ::testing::StartsWith("autopar-search: error: "));
  EXPECT_THAT(outcome.err, HasSubstr(message));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_EQ(scratch.num_files(), 0U);
}

struct Broken {
  std::string file;
  std::string message;
};

std::string test_name(const ::testing::TestParamInfo<Broken>& info) {
  std::string name = info.param.file.substr(0, info.param.file.find('.'));
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

// Failures show the file's name, not its bytes.
void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.file; }

class BrokenFileTest : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenFileTest, is_refused) {
  const Scratch scratch;
  const std::string path = kBroken + GetParam().file;
  std::string arguments = " -o '" + scratch.path("plan.json") + "'";
  if (GetParam().file.starts_with("model/") || GetParam().file.starts_with("problem/")) {
    arguments = "'" + path + "'" + arguments;
  } else {
    const bool is_cluster = GetParam().file.starts_with("cluster/");
    arguments = "'" + kValid + "'" + (is_cluster ? " --cluster '" : " --constraints '") + path + "'" + arguments;
  }
  expect_refused(run_program(arguments), path + ": " + GetParam().message, scratch);
}

const std::vector<Broken> kTable = {
    {"model/blank.json", "is empty"},
    {"model/cluster_missing.json", "the model file names no cluster"},
    {"model/cluster_unknown.json", "cluster: unknown cluster \"cray1\"; known are "},
    {"model/comma_missing.json", "line 5, column 14: not JSON: "},
    {"model/constraints_unknown_key.json", "constraints: unknown key \"pins\""},
    {"model/cut_off.json", "line 10, column 105: not JSON: "},
    {"model/empty.json", "is empty"},
    {"model/flops_negative.json", "nodes[0] (/f/mm).flops: -1 is negative"},
    {"model/format_of_a_plan.json", "format: expected \"autopar-model\", found \"autopar-plan\""},
    {"model/gradient_of_nothing.json", "outputs[0].of: unknown input \"v\""},
    {"model/gzip_cut_off.json.gz", "byte 200: the gzip data ends too early: the file is cut off"},
    {"model/gzip_damaged.json.gz", "byte "},
    {"model/huge_tensor.json", "inputs[0] (w).shape: more than 2^50 elements"},
    {"model/json_key_twice.json", "key \"name\" is there twice"},
    {"model/key_missing.json", "nodes[0] (/f/mm): key \"op\" is missing"},
    {"model/memory_limit_negative.json", "constraints.memory_limit_bytes: expected at least 1, found -1"},
    {"model/mesh_missing.json", "the model file has no mesh"},
    {"model/mesh_name_twice.json", "mesh: two dims are named \"dp\""},
    {"model/mesh_of_seven_dims.json", "mesh: 7 dims; at most 6 are possible"},
    {"model/mesh_of_zero.json", "mesh: a mesh dim of 0; expected at least 1"},
    {"model/mesh_too_large.json", "mesh: more than 16777216 devices"},
    {"model/negative_size.json", "inputs[0] (w).shape[1]: -64 is negative"},
    {"model/nested_too_deep.json", "nested more than 64 levels deep"},
    {"model/node_key_twice.json", "nodes[1] (/f/mm).key: this key is taken by nodes[0]"},
    {"model/not_json.json", "line 1, column 1: not JSON: "},
    {"model/not_utf8.json", "line 4, column 15: not JSON: "},
    {"model/number_too_large.json", "not JSON: a number that does not fit in 64 bits"},
    {"model/output_out_of_range.json", "nodes[1] (/f/sum).args[0].output: output 1 of \"/f/mm\", which has 1"},
    {"model/pin_leaves_devices_empty.json",
     "constraints.parameters.w: S(0),S(0) leaves devices without a piece of \"w\""},
    {"model/pin_makes_parameter_partial.json", "constraints.parameters.w: \"w\" cannot be P(sum)"},
    {"model/pin_matches_nothing.json", "constraints.parameters[\"v*\"]: the pattern matches none"},
    {"model/pin_of_missing_dim.json", "constraints.parameters.w: S(2) of \"w\", which has 2 dims"},
    {"model/pin_of_missing_mesh_dim.json", "constraints.parameters.w.ep: the mesh has no dim \"ep\""},
    {"model/pins_contradict.json", "constraints.parameters[\"*\"]: wants S(0) for \"w\" on mesh dim dp, but "},
    {"model/reference_to_itself.json", "nodes[0] (/f/mm).args[1]: refers to \"/f/mm\", which is this node itself"},
    {"model/reference_to_later_node.json",
     "nodes[0] (/f/mm).args[1]: refers to \"/f/sum\", which stands later (nodes[1])"},
    {"model/reference_to_none_output.json", "nodes[1] (/f/sum).args[0]: uses output 0 of \"/f/mm\", which is None"},
    {"model/reference_to_nothing.json", "nodes[0] (/f/mm).args[1]: refers to unknown node \"v\""},
    {"model/size_is_text.json", "inputs[0] (w).shape[1]: expected an integer, found a string"},
    {"model/strategies_empty.json", "nodes[0] (/f/mm).strategies: is empty"},
    {"model/strategy_for_other_inputs.json", "nodes[0] (/f/mm).strategies[0].inputs: 1 placements for 2 tensors"},
    {"model/strategy_of_missing_dim.json", "nodes[0] (/f/mm).strategies[0].outputs[0]: S(2) of a tensor with 2 dims"},
    {"model/strategy_unknown_placement.json",
     "nodes[0] (/f/mm).strategies[0].outputs[0]: unknown placement \"sharded\""},
    {"model/strides_missing.json", "inputs[0] (w).stride: 1 strides for 2 dims"},
    {"model/tie_of_unequal_lists.json", "nodes[1] (/f/sum).same_strategy_as: \"/f/mm\" has 1 strategies, this node 2"},
    {"model/tie_to_later_node.json", "nodes[0] (/f/mm).same_strategy_as: \"/f/sum\" is not an earlier node (nodes[1])"},
    {"model/unknown_dtype.json", "inputs[0] (w).dtype: unknown dtype \"float33\""},
    {"model/unknown_key.json", "nodes[0] (/f/mm): unknown key \"opp\""},
    {"model/unknown_phase.json",
     "nodes[0] (/f/mm).phase: expected one of \"forward\", \"backward\"; found \"sideways\""},
    {"model/unknown_role.json", "inputs[0] (w).role: expected one of \"parameter\""},
    {"model/unknown_version.json", "version: this program reads version 1, found 2"},
    {"problem/interval_reversed.json", "problem.nodes.intervals[1]: ends at 40, before its start at 70"},
    {"problem/matrix_length.json", "problem.edges.costs[2]: 3 costs for 2 x 2 strategies of nodes 1 and 3"},
    {"problem/not_a_number.json", "problem.nodes.costs[2][1]: expected an integer, found NaN"},
    {"problem/number_too_large.json",
     "problem.nodes.costs[2][2]: 9223372036854775808 does not fit in a signed 64-bit integer"},
    {"problem/problem_key_missing.json", "key \"problem\" is missing; put the cost table into it: {\"problem\": ...}"},
    {"problem/unknown_node.json", "problem.edges.nodes[2][1]: there is no node 5: the file has 5"},
    {"problem/usage_negative.json", "problem.nodes.usages[1][1]: -1 is negative"},
    {"problem/cut_off.json", "line "},
    {"constraints/compiled_is_a_number.json", "compiled: expected true or false"},
    {"constraints/pin_matches_nothing.json", "inputs.y: the pattern matches none of the graph's inputs"},
    {"constraints/pins_contradict.json", "nodes.w: wants S(1) for \"w\" on mesh dim dp, but "},
    {"constraints/unknown_placement.json", "inputs.x[1]: expected R, S(dim) or P(sum), found \"sharded\""},
    {"constraints/unknown_version.json", "version: this program reads version 1, found 2"},
    {"cluster/bandwidth_of_zero.json", "links[0].bandwidth.value: expected 1 to 1e+18, found 0"},
    {"cluster/clock_above_one.json", "device.matmul_clock.value: expected 0.01 to 1, found 1.5"},
    {"cluster/groups_not_nested.json", "links[1].group: the last link, and only it, has group 0"},
    {"cluster/low_latency_without_bandwidth.json", "links[0].low_latency: key \"bandwidth\" is missing"},
    {"cluster/source_missing.json", "device.launch: key \"source\" is missing"},
    {"cluster/unit_in_gigabytes.json", "device.memory.unit: expected \"B\", found \"GB\""},
};

INSTANTIATE_TEST_SUITE_P(All, BrokenFileTest, ::testing::ValuesIn(kTable), test_name);

TEST(BrokenFilesTest, all_are_in_the_table) {
  std::set<std::string> expected{"model/valid.json"};
  for (const Broken& broken : kTable) expected.insert(broken.file);
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kBroken)) {
    if (entry.is_regular_file()) found.insert(std::filesystem::relative(entry.path(), kBroken).string());
  }
  EXPECT_EQ(found, expected);
}

TEST(UsageTest, faults_are_told_in_one_line) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"", "model is required"},
      {"none.json", "none.json: cannot open: No such file or directory"},
      {"'" + kBroken + "'", "is a directory, not a file"},
      {"'" + kValid + "' --gap 2", "--gap"},
      {"'" + kValid + "' --gap nan", "--gap: \"nan\" is not a number"},
      {"'" + kValid + "' --gap inf", "--gap"},
      {"'" + kValid + "' --time-limit NaN", "--time-limit: \"NaN\" is not a number"},
      {"'" + kValid + "' --time-limit inf", "--time-limit"},
      {"'" + kValid + "' --checkpoint-interval nan", "--checkpoint-interval: \"nan\" is not a number"},
      {"'" + kValid + "' --threads 0", "--threads"},
      {"'" + kValid + "' --time-limit -1", "--time-limit"},
      {"'" + kValid + "' --speed 3", "--speed"},
      {"'" + kValid + "' --mesh 8,0", "--mesh: a mesh dim of 0; expected at least 1"},
      {"'" + kValid + "' --mesh 8,x", "--mesh: \"x\" is not a size in \"8,x\""},
      {"'" + kValid + "' --mesh dp=8,4", "--mesh: some dims have no name"},
      {"'" + kValid + "' --cluster cray1", "--cluster: unknown cluster \"cray1\""},
  };
  for (const auto& [arguments, message] : faults) {
    SCOPED_TRACE(arguments);
    const Scratch scratch;
    expect_refused(run_program(arguments + " -o '" + scratch.path("plan.json") + "'"), message, scratch);
  }
}

TEST(UsageTest, an_output_that_cannot_be_written_is_told_before_the_search) {
  const Outcome outcome = run_program("'" + kValid + "' -o /nowhere/plan.json");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("/nowhere/plan.json: cannot write there: No such file"));
}

TEST(UsageTest, a_plan_does_not_overwrite_an_input) {
  const Scratch scratch;
  const std::string model = scratch.put("model.json", testing::slurp(kValid));
  const Outcome outcome = run_program("'" + model + "' -o '" + model + "'");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("the output would overwrite an input file"));
  EXPECT_EQ(testing::slurp(model), testing::slurp(kValid));
}

TEST(UsageTest, help_and_version) {
  const Outcome help = run_program("--help");
  EXPECT_EQ(help.exit_code, 0);
  for (const char* text : {"--mesh", "--reproducible", "Exit codes:", "infeasible"})
    EXPECT_THAT(help.out, HasSubstr(text));
  const Outcome version = run_program("--version");
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, ::testing::MatchesRegex("autopar-search [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(RanksTest, all_leave_together_with_the_same_code_and_one_message) {
  const Scratch scratch;
  const std::string output = " -o '" + scratch.path("plan.json") + "'";
  for (const std::string& arguments : {"'" + kBroken + "model/mesh_of_zero.json'", "'" + kValid + "' --gap 2"}) {
    const Outcome outcome = run_ranks(3, arguments + output);
    EXPECT_EQ(outcome.exit_code, 2);
    std::size_t count = 0;
    for (std::size_t at = outcome.err.find("error: "); at != std::string::npos;
         at = outcome.err.find("error: ", at + 1)) {
      ++count;
    }
    EXPECT_EQ(count, 1U) << outcome.err;
    EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("MPI_ABORT")));
  }
  EXPECT_EQ(run_ranks(2, "--version").out.find("autopar-search"), 0U);
}

}  // namespace
}  // namespace autopar::launch
