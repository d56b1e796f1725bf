#include "io/write_plan.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "io/plan_totals.h"
#include "io/read_model.h"
#include "tests/io/tiny.h"

namespace autopar::io {
namespace {

using costs::Placement;
using Kind = costs::RedistributeStep::Kind;

/// The tiny example on a 2×4 mesh, everything replicated but fc1.weight, which is gathered in one collective.
struct Fixture {
  partition::Problem problem;
  partition::Plan plan;
  PlanResult solution;
  PlanSource source;

  Fixture() {
    GraphFile file = read_model(testing::tiny_path()).graph_file;
    problem.graph = std::move(file.graph);
    problem.mesh = {{2, 4}, {"dp", "tp"}};
    problem.cluster.name = "a \"quoted\" name";
    source = {"autopar-search 0.1.0", "xxh3:0000000000000001", "xxh3:0000000000000002", "", std::move(file.aliases)};
    source.aliases[0] = {"head.weight"};
    plan.mesh = problem.mesh;
    for (const costs::Node& node : problem.graph.nodes) {
      plan.nodes.push_back(
          {std::vector<costs::Placements>(node.inputs.size()), std::vector<costs::Placements>(node.outputs.size()), 7});
    }
    costs::Placements sharded;
    sharded[0] = sharded[1] = Placement::shard(0);
    plan.nodes[0].outputs[0] = sharded;
    plan.outputs.resize(problem.graph.outputs.size());
    const costs::RedistributeStep gather{Kind::kAllGather, 3, sharded, {}, 8388608, 500};
    plan.redistributions.push_back({{0, 0}, costs::Phase::kForward, sharded, {}, {gather}, {{4, 0}, {1, -1}}, false});
    plan.redistributions.push_back(
        {{8, 0}, costs::Phase::kForward, {}, sharded, {{Kind::kSlice, 1, {}, {}, 0, 0}}, {{9, 0}}, false});
    plan.cost_ps = 619;
    plan.compute_ps = 119;
    plan.communication_ps = 500;
    plan.memory.node_bytes.resize(problem.graph.nodes.size());
    plan.memory.node_bytes[5] = plan.memory.peak_bytes = 4321;
    plan.memory.peak_node = 5;
    plan.memory.peak_parts = {4000, 300, 0, 0, 20, 1};
    solution.bound = 600;
    solution.status = engine::Status::kLimitReached;
  }
  std::string text(const std::optional<RunInfo>& run = std::nullopt) const {
    return format_plan(problem, plan, solution, source, run);
  }
};

TEST(WritePlanTest, says_what_the_plan_says) {
  const Fixture fixture;
  const auto json = nlohmann::json::parse(fixture.text());
  EXPECT_EQ(json["format"], "autopar-plan");
  EXPECT_EQ(json["model"]["graph_hash"], fixture.problem.graph.hash);
  EXPECT_EQ(json["cluster"]["name"], "a \"quoted\" name");
  EXPECT_TRUE(json["constraints_hash"].is_null());
  EXPECT_EQ(json["mesh"], nlohmann::json::parse(R"json({"shape": [2, 4], "dim_names": ["dp", "tp"]})json"));
  EXPECT_EQ(json["result"]["status"], "limit_reached");
  EXPECT_NEAR(json["result"]["gap"].get<double>(), 19.0 / 619.0, 1e-6);
  const auto sharded = nlohmann::json::parse(R"json(["S(0)", "S(0)"])json");
  EXPECT_EQ(json["parameters"]["fc1.weight"], sharded);
  EXPECT_EQ(json["parameters"]["head.weight"], sharded);
  EXPECT_EQ(json["parameters"]["fc2.weight"], nlohmann::json::parse(R"json(["R", "R"])json"));
  EXPECT_EQ(json["nodes"].size(), fixture.problem.graph.nodes.size());
  EXPECT_EQ(json["nodes"]["fc1/f/mm"]["inputs"].size(), 2U);
  EXPECT_EQ(json["nodes"]["fc1/f/mm"]["compute_ps"], 7);
  EXPECT_EQ(json["nodes"]["fc1/f/mm"]["reads"], nlohmann::json::parse(R"json(["input.x", "fc1/f/t"])json"));
  EXPECT_EQ(json["overlap"], "none");
  EXPECT_EQ(json["redistributions"][0],
            nlohmann::json::parse(
                R"json({"value": "fc1.weight", "output": 0, "phase": "forward", "from": ["S(0)", "S(0)"],
          "to": ["R", "R"], "dtype": "bfloat16", "steps": [{"step": "all_gather", "mesh_dims": ["dp", "tp"], "to": ["R", "R"],
          "bytes": 8388608, "time_ps": 500}], "uses": [{"node": "fc1/f/t", "input": 0}, {"graph_output": 1}]})json"));
  EXPECT_EQ(json["totals"]["communication"],
            nlohmann::json::parse(
                R"json([{"collective": "all_gather", "mesh_dims": ["dp", "tp"], "count": 1,
          "bytes": 8388608, "time_ps": 500}])json"));
  EXPECT_EQ(json["outputs"][1]["of"], "fc1.weight");
  EXPECT_FALSE(json.contains("run"));
}

TEST(WritePlanTest, nodes_say_their_op_phase_and_whole_tensors) {
  Fixture fixture;
  fixture.problem.graph.nodes[4].outputs.emplace_back(std::nullopt);
  fixture.plan.nodes[4].outputs.emplace_back();
  const auto json = nlohmann::json::parse(fixture.text());
  EXPECT_EQ(json["nodes"]["fc1.weight"]["op"], "placeholder");
  const auto& node = json["nodes"][fixture.problem.graph.nodes[4].key];
  EXPECT_EQ(node["op"], fixture.problem.graph.nodes[4].op);
  EXPECT_EQ(node["phase"], "forward");
  EXPECT_FALSE(json["nodes"]["fc1.weight"].contains("phase"));
  EXPECT_EQ(node["tensors"].size(), 2U);
  EXPECT_TRUE(node["tensors"][1].is_null());
  EXPECT_FALSE(node.contains("programs"));
  EXPECT_FALSE(node.contains("collectives"));
}

TEST(WritePlanTest, programs_and_their_all_reduces_only_where_there_are_some) {
  Fixture fixture;
  partition::NodeChoice& choice = fixture.plan.nodes[8];
  choice.programs[1].name = "log_softmax_sharded";
  const std::string& key = fixture.problem.graph.nodes[8].key;
  auto node = nlohmann::json::parse(fixture.text())["nodes"][key];
  EXPECT_EQ(node["programs"], nlohmann::json::parse(R"json(["", "log_softmax_sharded"])json"));
  EXPECT_FALSE(node.contains("collectives"));
  choice.all_reduces = {{1, costs::DType::kFloat32, 4096, 11}, {1, costs::DType::kFloat64, 8192, 12}};
  node = nlohmann::json::parse(fixture.text())["nodes"][key];
  EXPECT_EQ(node["collectives"], nlohmann::json::parse(R"json([
      {"step": "all_reduce", "mesh_dims": ["tp"], "dtype": "float32", "bytes": 4096, "time_ps": 11},
      {"step": "all_reduce", "mesh_dims": ["tp"], "dtype": "float64", "bytes": 8192, "time_ps": 12}])json"));
}

TEST(WritePlanTest, memory_of_every_op_and_the_peak_by_its_parts) {
  Fixture fixture;
  auto json = nlohmann::json::parse(fixture.text());
  EXPECT_EQ(json["totals"]["peak"], nlohmann::json::parse(R"json({"bytes": 4321, "node": "fc1/f/mm",
      "parameters_bytes": 4000, "optimizer_bytes": 300, "gradients_bytes": 0, "inputs_bytes": 0, "saved_bytes": 20,
      "temporary_bytes": 1})json"));
  EXPECT_EQ(json["nodes"]["fc1/f/mm"]["memory_bytes"], 4321);
  EXPECT_EQ(json["nodes"]["relu/f/relu"]["memory_bytes"], 0);
  EXPECT_FALSE(json["nodes"]["fc1.weight"].contains("memory_bytes"));
  fixture.plan.memory.peak_node = -1;
  json = nlohmann::json::parse(fixture.text());
  EXPECT_TRUE(json["totals"]["peak"]["node"].is_null());
}

TEST(WritePlanTest, only_what_is_saved_says_so) {
  Fixture fixture;
  fixture.plan.redistributions[1].is_saved = true;
  fixture.plan.redistributions[1].uses.clear();
  const auto json = nlohmann::json::parse(fixture.text());
  EXPECT_FALSE(json["redistributions"][0].contains("is_saved"));
  EXPECT_EQ(json["redistributions"][1]["is_saved"], true);
  EXPECT_TRUE(json["redistributions"][1]["uses"].empty());
}

TEST(WritePlanTest, one_line_per_node_and_redistribution) {
  const Fixture fixture;
  const std::string text = fixture.text();
  for (const char* start : {"\n\"fc1/f/mm\": {", "\n\"relu/f/relu\": {", "\n{\"value\": \"fc1.weight\", "}) {
    EXPECT_NE(text.find(start), std::string::npos) << start;
  }
}

TEST(WritePlanTest, run_is_the_last_line_and_all_that_differs) {
  const Fixture fixture;
  const std::string bare = fixture.text();
  const std::string with_run = fixture.text(RunInfo{4, 8, 0.1, 0.2, 0.3});
  const std::size_t run = with_run.rfind(",\n\"run\": {");
  ASSERT_NE(run, std::string::npos);
  EXPECT_EQ(with_run.substr(0, run) + "\n}\n", bare);
  const auto json = nlohmann::json::parse(with_run);
  EXPECT_EQ(json["run"]["ranks"], 4);
  EXPECT_EQ(json["run"]["threads"], 8);
  EXPECT_EQ(std::count(with_run.begin() + static_cast<std::ptrdiff_t>(run), with_run.end(), '\n'), 3);
}

TEST(WritePlanTest, progress_stands_in_the_run) {
  const Fixture fixture;
  const RunInfo run{1, 1, 0, 0, 0, {{0.25, engine::kForbidden, 3}, {0.5, 9, 4}}};
  const auto json = nlohmann::json::parse(fixture.text(run));
  EXPECT_EQ(json["run"]["progress"], nlohmann::json::parse("[[0.25, null, 3], [0.5, 9, 4]]"));
}

TEST(PlanTotalsTest, sums_by_mesh_dims_and_kind_without_local_steps) {
  partition::Plan plan;
  const auto add = [&](Kind kind, std::uint32_t dims, std::int64_t bytes) {
    plan.redistributions.push_back({{0, 0}, {}, {}, {}, {{kind, dims, {}, {}, bytes, 2 * bytes}}, {}, false});
  };
  add(Kind::kAllReduce, 2, 10);
  add(Kind::kAllGather, 1, 1);
  add(Kind::kSlice, 1, 0);
  add(Kind::kAllReduce, 2, 30);
  add(Kind::kAllReduce, 3, 5);
  plan.nodes.emplace_back().all_reduces = {{1, costs::DType::kFloat32, 7, 14}};  // inside a program
  const auto totals = communication_totals(plan);
  ASSERT_EQ(totals.size(), 3U);
  EXPECT_EQ(totals[0].kind, Kind::kAllGather);
  EXPECT_EQ(totals[1].mesh_dims, 2U);
  EXPECT_EQ(totals[1].count, 3);
  EXPECT_EQ(totals[1].bytes, 47);
  EXPECT_EQ(totals[1].time_ps, 94);
  EXPECT_EQ(totals[2].mesh_dims, 3U);
}

}  // namespace
}  // namespace autopar::io
