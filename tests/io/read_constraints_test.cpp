#include "io/read_constraints.h"

#include <gmock/gmock.h>

#include "io/read_model.h"
#include "tests/io/tiny.h"

namespace autopar::io {
namespace {

using costs::Placement;
using ::testing::HasSubstr;
using testing::input_error;

constexpr std::size_t kFc1 = 0;
constexpr std::size_t kFc2 = 1;
constexpr std::size_t kX = 2;
constexpr std::size_t kMm = 5;
constexpr std::size_t kLoss = 0;
constexpr std::size_t kFc1Gradient = 1;

costs::Cluster cluster_of(std::int64_t memory_bytes) {
  costs::Cluster cluster;
  cluster.device.memory_bytes = memory_bytes;
  return cluster;
}

class ConstraintsTest : public ::testing::Test {
 protected:
  partition::Pins resolve(const std::vector<std::string>& layers) {
    std::vector<JsonValue> values;
    for (const std::string& text : layers) {
      documents_.push_back(std::make_unique<JsonDocument>("c" + std::to_string(documents_.size()) + ".json", text));
      values.push_back(documents_.back()->root());
    }
    return resolve_constraints(values, graph_, mesh_, cluster_of(1000));
  }
  std::string error(const std::string& text) {
    documents_.clear();
    return input_error([&] { resolve({text}); });
  }

  GraphFile graph_ = read_model(testing::tiny_path()).graph_file;
  costs::Mesh mesh_{{8, 4, 1}, {"dp", "tp", "one"}};
  std::vector<std::unique_ptr<JsonDocument>> documents_;
};

TEST_F(ConstraintsTest, none_leaves_all_free_within_the_devices_memory) {
  const partition::Pins pins = resolve({});
  EXPECT_EQ(pins.memory_limit_bytes, 1000);
  ASSERT_EQ(pins.nodes.size(), 17U);
  ASSERT_EQ(pins.outputs.size(), 3U);
  for (const auto& pin : pins.nodes) EXPECT_TRUE(pin.source.empty());
}

TEST_F(ConstraintsTest, globs_lists_and_objects) {
  const partition::Pins pins = resolve({R"json({"memory_limit_bytes": 77, "optimizer": {"bytes_per_element": 2},
      "parameters": {"fc?.weight": ["S(0)", null, "*"], "fc1*": {"tp": "S(1)"}},
      "inputs": {"*": {"0": "S(0)"}}, "outputs": {"loss": {"tp": "R"}},
      "nodes": {"fc1/*/mm": {"tp": "Partial(sum)"}}})json"});
  EXPECT_EQ(pins.memory_limit_bytes, 77);
  EXPECT_EQ(pins.optimizer.bytes_per_element, 2);
  EXPECT_EQ(pins.optimizer.master_bytes_per_element, 4);
  EXPECT_EQ(pins.nodes[kFc1].at[0], Placement::shard(0));
  EXPECT_EQ(pins.nodes[kFc1].at[1], Placement::shard(1));
  EXPECT_EQ(pins.nodes[kFc1].source, "c0.json: parameters[\"fc?.weight\"] and c0.json: parameters[\"fc1*\"]");
  EXPECT_EQ(pins.nodes[kFc2].at[0], Placement::shard(0));
  EXPECT_EQ(pins.nodes[kFc2].at[1], std::nullopt);
  EXPECT_EQ(pins.nodes[kX].at[0], Placement::shard(0));
  EXPECT_EQ(pins.nodes[kMm].at[0], std::nullopt);
  EXPECT_EQ(pins.nodes[kMm].at[1], Placement::partial());
  EXPECT_EQ(pins.outputs[kLoss].at[1], Placement::replicate());
  EXPECT_EQ(pins.outputs[kFc1Gradient].at[1], Placement::shard(1)) << "a gradient goes with its parameter";
}

TEST_F(ConstraintsTest, the_last_layer_says_whether_the_step_is_compiled) {
  EXPECT_THAT(resolve({}).compiled, ::testing::IsEmpty());
  EXPECT_EQ(resolve({R"json({"compiled": true})json", R"json({"memory_limit_bytes": 5})json"}).compiled[kMm], 1);
  EXPECT_THAT(resolve({R"json({"compiled": true})json", R"json({"compiled": false})json"}).compiled,
              ::testing::IsEmpty());
  EXPECT_THAT(error(R"json({"compiled": 1})json"), HasSubstr("compiled"));
}

TEST_F(ConstraintsTest, parts_of_the_step_are_compiled) {
  const std::vector<char> some = resolve({R"json({"compiled": ["fc1/*"]})json"}).compiled;
  ASSERT_EQ(some.size(), 17U);
  EXPECT_EQ(some[kMm], 1);
  EXPECT_EQ(some[kFc1], 0) << "a parameter does not run";
  EXPECT_THAT(some, ::testing::Contains(0));
  EXPECT_THAT(error(R"json({"compiled": ["fc9/*"]})json"), HasSubstr("compiled[0]: the pattern matches no node"));
}

TEST_F(ConstraintsTest, recompute_names_nodes_that_can_run_again) {
  EXPECT_THAT(resolve({}).recompute, ::testing::IsEmpty());
  EXPECT_THAT(resolve({R"json({"recompute": []})json"}).recompute, ::testing::Each(0));
  const std::vector<char> all = resolve({R"json({"recompute": ["*"]})json"}).recompute;
  ASSERT_EQ(all.size(), 17U);
  EXPECT_EQ(all[kFc1], 0) << "a parameter does not run";
  EXPECT_THAT(all, ::testing::Contains(1));
  EXPECT_THAT(error(R"json({"recompute": ["fc9/*"]})json"), HasSubstr("recompute[0]: the pattern matches no node"));
}

TEST_F(ConstraintsTest, a_gradients_pin_holds_for_its_parameter) {
  EXPECT_EQ(resolve({R"json({"outputs": {"gradient.fc1.weight": {"dp": "S(1)"}}})json"}).nodes[kFc1].at[0],
            Placement::shard(1));
}

TEST_F(ConstraintsTest, a_tied_parameter_answers_to_all_its_names) {
  graph_.aliases[kFc1] = {"head.weight"};
  EXPECT_EQ(resolve({R"json({"parameters": {"head.*": {"dp": "S(1)"}}})json"}).nodes[kFc1].at[0], Placement::shard(1));
  EXPECT_THAT(
      error(R"json({"parameters": {"head.weight": {"dp": "S(1)"}, "fc1.weight": {"dp": "R"}}})json"),
      HasSubstr("wants R for \"fc1.weight\" on mesh dim dp, but c0.json: parameters[\"head.weight\"] wants S(1)"));
}

TEST_F(ConstraintsTest, a_name_with_brackets_matches_itself) {
  graph_.graph.nodes[kX].name = "args[0]";
  EXPECT_EQ(resolve({R"json({"inputs": {"args[0]": {"dp": "S(0)"}}})json"}).nodes[kX].at[0], Placement::shard(0));
}

TEST_F(ConstraintsTest, a_later_layer_wins_by_mesh_dim) {
  const partition::Pins pins =
      resolve({R"json({"memory_limit_bytes": 5, "parameters": {"fc1.weight": ["S(0)", "S(0)", "R"]}})json",
               R"json({"parameters": {"fc1.weight": {"tp": "S(1)"}}})json"});
  EXPECT_EQ(pins.memory_limit_bytes, 5);
  EXPECT_EQ(pins.nodes[kFc1].at[0], Placement::shard(0));
  EXPECT_EQ(pins.nodes[kFc1].at[1], Placement::shard(1));
  EXPECT_EQ(pins.outputs[kFc1Gradient].at[1], Placement::shard(1));
}

TEST_F(ConstraintsTest, a_mesh_dim_of_one_device_asks_for_nothing) {
  const partition::Pins pins = resolve({R"json({"parameters": {"fc1.weight": {"one": "S(0)"}}})json"});
  EXPECT_EQ(pins.nodes[kFc1].at[2], std::nullopt);
  EXPECT_TRUE(pins.nodes[kFc1].source.empty());
}

TEST_F(ConstraintsTest, faults_are_told_with_their_place) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {R"json({"parameters": {"fc3.*": {"dp": "R"}}})json",
       "c0.json: parameters[\"fc3.*\"]: the pattern matches none of the graph's parameters"},
      {R"json({"parameters": {"fc1*": {"dp": "R"}, "*weight": {"dp": "S(0)"}}})json",
       "c0.json: parameters[\"*weight\"]: wants S(0) for \"fc1.weight\" on mesh dim dp, but c0.json: "
       "parameters[\"fc1*\"] wants R"},
      {R"json({"parameters": {"fc1*": {"dp": "R"}}, "nodes": {"fc1.weight": {"dp": "S(0)"}}})json",
       "wants S(0) for \"fc1.weight\""},
      {R"json({"parameters": {"fc1*": {"dp": "R"}}, "outputs": {"gradient.fc1.weight": {"dp": "S(0)"}}})json",
       "wants S(0) for \"fc1.weight\" on mesh dim dp, but c0.json: parameters[\"fc1*\"] wants R"},
      {R"json({"parameters": {"fc1*": {"ep": "R"}}})json",
       "parameters[\"fc1*\"].ep: the mesh has no dim \"ep\"; it has dp, tp, one"},
      {R"json({"parameters": {"fc1*": {"3": "R"}}})json", "the mesh has no dim \"3\""},
      {R"json({"parameters": {"fc1*": {"dp": "R", "0": "R"}}})json",
       "this mesh dim is there twice, by name and by index"},
      {R"json({"parameters": {"fc1*": ["R", "R"]}})json", "parameters[\"fc1*\"]: 2 placements for a mesh of 3 dims"},
      {R"json({"parameters": {"fc1*": ["R", "X", "R"]}})json",
       "parameters[\"fc1*\"][1]: expected R, S(dim) or P(sum), found \"X\""},
      {R"json({"parameters": {"fc1*": "R"}})json", "expected a list of placements or an object by mesh dim"},
      {R"json({"parameters": {"fc1*": {"dp": "S(2)"}}})json", "S(2) of \"fc1.weight\", which has 2 dims: [4096,1024]"},
      {R"json({"parameters": {"fc1*": {"dp": "P(sum)"}}})json",
       "\"fc1.weight\" cannot be P(sum): only what an op computes"},
      {R"json({"outputs": {"loss": {"dp": "S(0)"}}})json", "S(0) of \"loss\", which has 0 dims: []"},
      {R"json({"memory_limit_bytes": 0})json", "c0.json: memory_limit_bytes: expected at least 1, found 0"},
      {R"json({"optimizer": {"bytes_per_element": -1}})json",
       "c0.json: optimizer.bytes_per_element: expected 0 to 1024"},
      {R"json({"optimizer": {"adam": 1}})json", "c0.json: optimizer: unknown key \"adam\""},
  };
  for (const auto& [text, message] : faults) EXPECT_THAT(error(text), HasSubstr(message)) << text;
}

TEST_F(ConstraintsTest, a_pin_that_leaves_devices_without_a_piece_is_refused) {
  graph_.graph.nodes[kX].outputs[0]->shape = {16, 1024};
  EXPECT_THAT(
      error(R"json({"inputs": {"x": {"dp": "S(0)", "tp": "S(0)"}}})json"),
      HasSubstr(
          "inputs.x: S(0),S(0),R leaves devices without a piece of \"input.x\": its dim 0 has size 16, cut into 32"));
  documents_.clear();
  EXPECT_NO_THROW(resolve({R"json({"inputs": {"x": {"dp": "S(0)"}}})json"}));
}

TEST(ReadConstraintsTest, a_file_is_checked) {
  const auto error = [&](const std::string& text) { return input_error([&] { read_constraints("c.json", text); }); };
  EXPECT_EQ(error(R"json({"format": "autopar-constraints", "version": 1, "parameters": {}})json"), "no error");
  EXPECT_THAT(error(R"json({"format": "autopar-constraints", "version": 9})json"),
              HasSubstr("c.json: version: this program"));
  EXPECT_THAT(error(R"json({"parameters": {}})json"), HasSubstr("c.json: key \"format\" is missing"));
  EXPECT_THAT(error(R"json({"format": "autopar-constraints", "version": 1, "pins": {}})json"),
              HasSubstr("unknown key \"pins\""));
}

}  // namespace
}  // namespace autopar::io
