#include "io/read_plan.h"

#include <gmock/gmock.h>

#include <random>

#include "partition/simulate.h"
#include "tests/io/scratch.h"

namespace autopar::io {
namespace {

using costs::Phase;
using costs::Placement;
using partition::WrittenPlan;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::input_error;
using ::testing::IsEmpty;
using testing::slurp;
using Kind = costs::RedistributeStep::Kind;

const std::string kPath = AUTOPAR_SOURCE_DIR "/tests/plans/overlapped.json";

/// The plan's text with the first `from` behind the first `behind` replaced by `to`.
std::string plan_with(const std::string& behind, const std::string& from, const std::string& to) {
  std::string text = slurp(kPath);
  const std::size_t begin = text.find(behind);
  const std::size_t at = begin == std::string::npos ? begin : text.find(from, begin);
  EXPECT_NE(at, std::string::npos) << behind << " … " << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

TEST(ReadPlanTest, head_and_totals) {
  const WrittenPlan plan = read_plan(kPath);
  EXPECT_EQ(plan.model_name, "two_layers");
  EXPECT_EQ(plan.graph_hash, "sha256:12");
  EXPECT_EQ(plan.cluster_name, "h100");
  EXPECT_EQ(plan.mesh, (costs::Mesh{{2, 4}, {"dp", "tp"}}));
  EXPECT_EQ(plan.status, "limit_reached");
  EXPECT_EQ(plan.cost_ps, 1200);
  EXPECT_EQ(plan.bound_ps, 1100);
  EXPECT_EQ(plan.compute_ps, 1000);
  EXPECT_EQ(plan.communication_ps, 500);
  EXPECT_EQ(plan.parameter_bytes, 640);
  EXPECT_EQ(plan.memory_limit_bytes, 4096);
  EXPECT_EQ(plan.memory.peak_bytes, 2048);
  EXPECT_EQ(plan.memory.peak_node, 2);
  EXPECT_THAT(plan.memory.peak_parts, ElementsAre(128, 448, 64, 8, 400, 1000));
  EXPECT_THAT(plan.memory.node_bytes, ElementsAre(0, 0, 2048, 1024, 1024, 1024, 1024));
  EXPECT_THAT(plan.recomputed, ElementsAre("one/f/mm"));
}

TEST(ReadPlanTest, nodes_and_outputs) {
  const WrittenPlan plan = read_plan(kPath);
  ASSERT_EQ(plan.parameters.size(), 1U);
  EXPECT_EQ(plan.parameters[0].first, "two.weight");
  EXPECT_EQ(plan.parameters[0].second[0], Placement::shard(0));
  ASSERT_EQ(plan.nodes.size(), 7U);
  EXPECT_EQ(plan.nodes[0].op, "placeholder");
  EXPECT_FALSE(plan.nodes[0].phase);
  EXPECT_EQ(plan.nodes[0].compute_ps, 50);
  const WrittenPlan::Node& first = plan.nodes[2];
  EXPECT_EQ(first.key, "one/f/mm");
  EXPECT_EQ(first.phase, Phase::kForward);
  EXPECT_EQ(first.inputs.size(), 2U);
  EXPECT_EQ((*first.outputs[0])[1], Placement::shard(1));
  EXPECT_FALSE(first.outputs[1]);
  EXPECT_THAT(first.tensors, ElementsAre("float32[8,8]", std::nullopt));
  EXPECT_THAT(first.programs, IsEmpty());
  EXPECT_THAT(plan.nodes[3].programs, ElementsAre("", "summed"));
  ASSERT_EQ(plan.nodes[3].all_reduces.size(), 1U);
  EXPECT_EQ(plan.nodes[3].all_reduces[0].mesh_dim, 1);
  EXPECT_EQ(plan.nodes[3].all_reduces[0].time_ps, 20);
  EXPECT_EQ(plan.nodes[4].phase, Phase::kBackward);
  ASSERT_EQ(plan.outputs.size(), 2U);
  EXPECT_EQ(plan.outputs[1].value, (costs::ValueRef{4, 0}));
  EXPECT_EQ(plan.outputs[1].role, costs::OutputRole::kGradient);
  EXPECT_EQ(plan.outputs[1].of, 0);
}

TEST(ReadPlanTest, redistributions) {
  const WrittenPlan plan = read_plan(kPath);
  ASSERT_EQ(plan.redistributions.size(), 6U);
  const WrittenPlan::Redistribution& ahead = plan.redistributions[0];
  EXPECT_EQ(ahead.value, (costs::ValueRef{0, 0}));
  EXPECT_EQ(ahead.dtype, costs::DType::kFloat32);
  EXPECT_EQ(ahead.from[0], Placement::shard(0));
  EXPECT_EQ(ahead.to, costs::Placements{});
  EXPECT_EQ(ahead.start, 2);
  EXPECT_EQ(ahead.finish, 3);
  EXPECT_EQ(ahead.source, -1);
  ASSERT_EQ(ahead.steps.size(), 1U);
  EXPECT_EQ(ahead.steps[0].kind, Kind::kAllGather);
  EXPECT_EQ(ahead.steps[0].mesh_dims, 1U);
  EXPECT_EQ(ahead.steps[0].bytes, 256);
  EXPECT_EQ(ahead.steps[0].time_ps, 150);
  EXPECT_EQ(ahead.steps[0].startup_ps, 40);
  EXPECT_EQ(ahead.uses[0].node, 3);
  EXPECT_EQ(ahead.uses[0].input, 1);
  EXPECT_EQ(plan.redistributions[1].start, -1);
  EXPECT_EQ(plan.redistributions[2].source, 1);
  EXPECT_TRUE(plan.redistributions[3].is_saved);
  // In the backward the value is there as it was saved.
  EXPECT_EQ(plan.redistributions[4].source, -1);
  EXPECT_EQ(plan.redistributions[5].phase, Phase::kBackward);
  EXPECT_EQ(plan.redistributions[5].start, 6);
  EXPECT_EQ(plan.redistributions[5].finish, -1);
  EXPECT_EQ(plan.redistributions[5].uses[1].node, 1);
  EXPECT_EQ(plan.redistributions[5].uses[1].input, -1);
}

TEST(ReadPlanTest, on_a_mesh_dim_of_one_device_all_placements_are_the_same) {
  std::string text = plan_with("mesh", "[2, 4]", "[2, 1]");
  const std::string from = "\"from\": [\"R\", \"S(1)\"]";
  text.replace(text.find(from), from.size(), "\"from\": [\"R\", \"R\"]");
  EXPECT_EQ(parse_plan("p.json", text).redistributions[1].source, -1);
}

TEST(ReadPlanTest, what_the_forward_reads_may_be_saved) {
  const WrittenPlan plan =
      parse_plan("p.json", plan_with("redistributions", "\"start\"", "\"is_saved\": true, \"start\""));
  EXPECT_TRUE(plan.redistributions[0].is_saved);
  EXPECT_EQ(plan.redistributions[0].start, 2);
  EXPECT_EQ(plan.redistributions[0].uses.size(), 1U);
}

struct Fault {
  const char* behind;
  const char* from;
  const char* to;
  const char* message;
};

class PlanFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(PlanFaultTest, is_named_with_its_place) {
  const Fault& fault = GetParam();
  const std::string text = plan_with(fault.behind, fault.from, fault.to);
  EXPECT_EQ(input_error([&] { parse_plan("p.json", text); }), std::string("p.json: ") + fault.message);
}

constexpr Fault kFaults[] = {
    {"format", "autopar-plan", "autopar-model", "format: expected \"autopar-plan\", found \"autopar-model\""},
    {"version", "1", "2", "version: this program reads version 1, found 2"},
    {"producer", "producer", "maker",
     "unknown key \"maker\"; expected format, version, producer, model, mesh, cluster, constraints_hash, overlap, "
     "result, "
     "meshes, totals, parameters, recompute, nodes, redistributions, outputs, run"},
    {"mesh", "[2, 4]", "[2]", "mesh: 2 dim names for 1 dims"},
    {"result", "1200", "-1", "result.cost_ps: -1 is negative"},
    {"peak", "one/f/mm", "input.x", "totals.peak.node: \"input.x\" is a graph input; expected a node that runs"},
    {"recompute", "one/f/mm", "one/f/nn", "recompute[0]: unknown node \"one/f/nn\"; expected a key of \"nodes\""},
    {"\"nodes\"", "\"phase\": \"forward\", ", "",
     "nodes[\"one/f/mm\"]: key \"phase\" is missing: an older autopar-search wrote this plan; search it again"},
    {"\"nodes\"", "\"phase\": \"forward\"", "\"phase\": \"sideways\"",
     "nodes[\"one/f/mm\"].phase: expected one of \"forward\", \"backward\"; found \"sideways\""},
    {"\"nodes\"", "[\"S(0)\", \"R\"]", "[\"S(0)\"]",
     "nodes[\"two.weight\"].outputs[0]: expected 2 placements, one per mesh dim; found 1"},
    {"\"nodes\"", "\"S(0)\"", "\"S\"",
     "nodes[\"two.weight\"].outputs[0][0]: expected R, S(0), P(sum) or the like; found \"S\""},
    {"\"nodes\"", ", null]", "]", "nodes[\"one/f/mm\"].tensors: 2 tensors for 1 outputs"},
    {"\"nodes\"", "50", "\"50\"", "nodes[\"two.weight\"].compute_ps: expected an integer, found a string"},
    {"\"nodes\"", ": 300", ": 9000000000000000000",
     "nodes[\"one/f/mm\"].compute_ps: the times up to here sum to more than this program can hold"},
    {"\"nodes\"", ", \"memory_bytes\": 2048", "", "nodes[\"one/f/mm\"]: key \"memory_bytes\" is missing"},
    {"two/f/mm", "\"inputs\"", "\"reads\": [\"one/f/mm\"], \"inputs\"",
     "nodes[\"two/f/mm\"].reads: 1 values for 2 inputs"},
    {"two/f/mm", "\"inputs\"", "\"reads\": [\"one/f/mm\", \"two/f/mm\"], \"inputs\"",
     "nodes[\"two/f/mm\"].reads[1]: unknown node \"two/f/mm\"; expected a key of \"nodes\""},
    {"two/f/mm", "\"inputs\"", "\"reads\": [\"input.x\", [\"one/f/mm\", 1]], \"inputs\"",
     "nodes[\"two/f/mm\"].reads[1][1]: output 1 is None"},
    {"programs", "[\"\", ", "[", "nodes[\"two/f/mm\"].programs: 1 programs for 2 mesh dims"},
    {"collectives", "all_reduce", "all_gather",
     "nodes[\"two/f/mm\"].collectives[0].step: expected \"all_reduce\"; found \"all_gather\""},
    {"collectives", "[\"tp\"]", "[\"tp\", \"dp\"]",
     "nodes[\"two/f/mm\"].collectives[0].mesh_dims: expected one mesh dim"},
    {"redistributions", "two.weight", "weight",
     "redistributions[0].value: unknown node \"weight\"; expected a key of \"nodes\""},
    {"redistributions", "\"output\": 0", "\"output\": 1", "redistributions[0].output: output 1 of a node with 1"},
    {"f/mm\", \"output\": 0, \"phase\": \"forward\", \"from\": [\"R\", \"S(1)\"], \"to\": [\"R\", \"R\"]", ": 0", ": 1",
     "redistributions[1].output: output 1 is None"},
    {"two/b/mm\", \"output\"", "backward", "forward",
     "redistributions[5].phase: the value is made in the backward, behind this phase"},
    {"redistributions", "float32", "float33", "redistributions[0].dtype: unknown dtype \"float33\""},
    {"redistributions", "all_gather", "gather",
     "redistributions[0].steps[0].step: expected one of \"all_gather\", \"reduce_scatter\", \"all_reduce\", "
     "\"all_to_all\", \"slice\", \"zero\"; found \"gather\""},
    {"redistributions", "[\"dp\"]", "[\"ep\"]",
     "redistributions[0].steps[0].mesh_dims[0]: expected a mesh dim (dp, tp); found \"ep\""},
    {"redistributions", "[\"dp\"]", "[]",
     "redistributions[0].steps[0].mesh_dims: is empty; expected the names of mesh dims"},
    {"redistributions", ", \"startup_ps\": 40", "", "redistributions[0].steps[0]: key \"startup_ps\" is missing"},
    {"redistributions", "\"startup_ps\": 40", "\"startup_ps\": 151",
     "redistributions[0].steps[0].startup_ps: is more than \"time_ps\", 150"},
    {"redistributions", "\"start\": ", "\"pipelined_ps\": 1, \"start\": ",
     "redistributions[0].pipelined_ps: expected only where one step is waited for and read at once"},
    {"\"phase\": \"forward\", \"from\": [\"R\", \"S(1)\"]", "\"uses\": [", "\"pipelined_ps\": 151, \"uses\": [",
     "redistributions[1].pipelined_ps: is more than \"time_ps\" of the step, 150"},
    {"redistributions", "\"node\": \"two/f/mm\"", "\"node\": \"two/f/nn\"",
     "redistributions[0].uses[0].node: unknown node \"two/f/nn\"; expected a key of \"nodes\""},
    {"redistributions", "\"node\": \"two/f/mm\"", "\"node\": \"input.x\"",
     "redistributions[0].uses[0].node: \"input.x\" is a graph input; expected a node that runs"},
    {"redistributions", "\"node\": \"two/f/mm\"", "\"node\": \"two/b/mm\"",
     "redistributions[0].uses[0].node: runs in another phase than this redistribution"},
    {"redistributions", "\"input\": 1", "\"input\": 2", "redistributions[0].uses[0].input: input 2 of a node with 2"},
    {"\"slice\"", "\"input\": 0", "\"input\": 1", "redistributions[2].uses[0]: redistributions[0] gives this, too"},
    {"\"slice\"", "two/f/mm", "one/f/mm",
     "redistributions[2].uses[0].node: stands before the node that makes the value"},
    {"redistributions", "\"start\": \"one/f/mm\"", "\"start\": \"zero/f/mm\"",
     "redistributions[0].start: unknown node \"zero/f/mm\"; expected a key of \"nodes\""},
    {"redistributions", "\"start\": \"one/f/mm\"", "\"start\": \"one/b/mm\"",
     "redistributions[0].start: runs in another phase than this redistribution"},
    {"redistributions", "\"start\": \"one/f/mm\", ", "",
     "redistributions[0].finish: stands without \"start\"; expected both or none"},
    {"redistributions", ", \"finish\": \"two/f/mm\"", "", "redistributions[0]: key \"finish\" is missing"},
    {"redistributions", "\"finish\": \"two/f/mm\"", "\"finish\": \"one/f/mm\"",
     "redistributions[0].finish: expected a node that stands behind that of \"start\""},
    {"150}], \"uses\": []", "\"from\": [\"R\", \"R\"]", "\"from\": [\"S(1)\", \"R\"]",
     "redistributions[2].from: nothing gives the value so: it comes as R,S(1); expected that, or what an earlier "
     "entry makes"},
    {"redistributions", "\"graph_output\": 1", "\"graph_output\": 2",
     "redistributions[5].uses[1].graph_output: 2 of 2 outputs"},
    {"redistributions", "\"graph_output\": 1", "\"graph_output\": 0",
     "redistributions[5].uses[1].graph_output: this output hands out another value"},
    {"\"outputs\": [\n", "loss", "profit",
     "outputs[0].role: expected one of \"loss\", \"output\", \"gradient\", \"mutation\"; found \"profit\""},
    {"\"outputs\": [\n", "\"of\": \"two.weight\"", "\"of\": \"weight\"",
     "outputs[1].of: unknown node \"weight\"; expected a key of \"nodes\""},
};

INSTANTIATE_TEST_SUITE_P(All, PlanFaultTest, ::testing::ValuesIn(kFaults));

TEST(ReadPlanTest, a_file_that_is_not_there_is_named) {
  EXPECT_THAT(input_error([] { read_plan("/nowhere/plan.json"); }), HasSubstr("/nowhere/plan.json: cannot open"));
}

// Whatever the numbers and keys are, what is read can be run.
TEST(ReadPlanTest, a_damaged_plan_is_refused_or_can_be_simulated) {
  const std::string text = slurp(kPath);
  const std::vector<std::string> tokens = {"null",         "0",          "9223372036854775807", "\"one/f/mm\"",
                                           "\"two/f/mm\"", "1",          "\"two/b/t\"",         "[]",
                                           "\"backward\"", "\"forward\""};
  int num_run = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
    std::string copy = text;
    const std::string stops = " ,:[]{}\n";
    const std::size_t at = below(text.size());
    const std::size_t begin = copy.find_last_of(stops, at) + 1;
    copy.replace(begin, copy.find_first_of(stops, begin) - begin, tokens[below(tokens.size())]);
    try {
      const WrittenPlan plan = parse_plan("p.json", copy);
      const partition::Simulation simulation = partition::simulate(plan);
      std::int64_t busy_ps = simulation.compute_busy_ps;
      for (const std::int64_t one : simulation.busy_ps) busy_ps = std::max(busy_ps, one);
      EXPECT_GE(simulation.step_ps, busy_ps) << copy;
      EXPECT_LE(simulation.step_ps, simulation.compute_busy_ps + simulation.communication_ps) << copy;
      ++num_run;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), ::testing::StartsWith("p.json: "));
    }
  }
  EXPECT_GT(num_run, 100);
  EXPECT_LT(num_run, 2900);
}

}  // namespace
}  // namespace autopar::io
