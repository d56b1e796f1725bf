#include "io/read_model.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/io/tiny.h"

namespace autopar::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::input_error;
using testing::Scratch;
using testing::tiny_path;
using testing::tiny_with;

TEST(ReadModelTest, tiny_example_is_read_as_it_stands) {
  const ModelFile model = read_model(tiny_path());
  const costs::Graph& graph = model.graph_file.graph;
  EXPECT_EQ(graph.name, "tiny_mlp");
  EXPECT_THAT(graph.hash, ::testing::StartsWith("sha256:"));
  ASSERT_EQ(graph.nodes.size(), 17U);  // 4 inputs, 13 ops
  EXPECT_EQ(graph.nodes[0].op, "placeholder");
  EXPECT_EQ(graph.nodes[0].role, costs::Role::kParameter);
  EXPECT_EQ(graph.nodes[0].name, "fc1.weight");
  EXPECT_EQ(graph.nodes[3].role, costs::Role::kTangent);
  const costs::Node& mm = graph.nodes[5];
  EXPECT_EQ(mm.key, "fc1/f/mm");
  EXPECT_EQ(mm.module, "fc1");
  EXPECT_EQ(mm.phase, costs::Phase::kForward);
  EXPECT_EQ(mm.seq, 1);
  EXPECT_THAT(mm.inputs, ElementsAre(costs::ValueRef{2, 0}, costs::ValueRef{4, 0}));
  EXPECT_THAT(mm.outputs[0]->shape, ElementsAre(65536, 4096));
  EXPECT_EQ(mm.outputs[0]->dtype, costs::DType::kBFloat16);
  const costs::Node& expand = graph.nodes[10];
  ASSERT_EQ(expand.args.size(), 2U);
  EXPECT_EQ(*expand.args[1].as_list()->at(1).as_int(), 1024);
  ASSERT_EQ(graph.outputs.size(), 3U);
  EXPECT_EQ(graph.outputs[1].role, costs::OutputRole::kGradient);
  EXPECT_EQ(graph.outputs[1].of, 0);
  EXPECT_THAT(model.mesh->shape, ElementsAre(4));
  EXPECT_EQ(model.cluster_name, "h100");
  EXPECT_FALSE(model.constraints);
}

TEST(ReadModelTest, literals_of_all_kinds) {
  const Scratch scratch;
  const std::string path = scratch.put(
      "m.json", tiny_with("[{\"ref\": \"relu/b/threshold_backward\"}]",
                          R"([{"ref": "relu/b/threshold_backward"}, null, true, -3, 0.5, "mean", {"dtype": "float32"},
                          {"device": "cpu"}, {"float": "-inf"}, {"float": "nan"}, [[1], {"ref": "input.x", "output": 0}]],
                          "kwargs": {"memory_format": {"memory_format": "contiguous_format"}, "x": {"ref": "input.x"}})"));
  const costs::Node node = read_model(path).graph_file.graph.nodes[15];
  ASSERT_EQ(node.args.size(), 11U);
  EXPECT_TRUE(node.args[1].is_none());
  EXPECT_EQ(*node.args[2].as_bool(), true);
  EXPECT_EQ(*node.args[3].as_int(), -3);
  EXPECT_EQ(*node.args[4].as_double(), 0.5);
  EXPECT_EQ(std::get<std::string>(node.args[5].value), "mean");
  EXPECT_EQ(std::get<costs::Arg::Name>(node.args[6].value).text, "float32");
  EXPECT_EQ(std::get<costs::Arg::Name>(node.args[7].value).text, "cpu");
  EXPECT_EQ(*node.args[8].as_double(), -INFINITY);
  EXPECT_TRUE(std::isnan(*node.args[9].as_double()));
  EXPECT_EQ(node.kwargs[0].first, "memory_format");
  EXPECT_THAT(node.inputs, ElementsAre(costs::ValueRef{14, 0}, costs::ValueRef{2, 0}, costs::ValueRef{2, 0}));
}

TEST(ReadModelTest, aliases_of_tied_parameters_are_kept) {
  const Scratch scratch;
  const std::string path = scratch.put(
      "m.json", tiny_with("\"name\": \"fc1.weight\",", "\"name\": \"fc1.weight\", \"aliases\": [\"head.weight\"],"));
  EXPECT_THAT(read_model(path).graph_file.aliases[0], ElementsAre("head.weight"));
}

const std::string kRelu = R"("module": "relu", "phase": "forward", "seq": 2)";
const std::string kReluBackward = R"("module": "relu", "phase": "backward", "seq": 2)";

TEST(ReadModelTest, strategies_of_single_nodes_are_read_as_they_stand) {
  std::string text = tiny_with(kRelu, kRelu + R"json(, "flops": 7, "strategies": [{"inputs": ["R"], "outputs": ["R"]},
             {"inputs": ["S(1)"], "outputs": ["P(sum)"], "even": true, "mesh_dims": ["ep", "tp"]}])json");
  text.replace(text.find(kReluBackward), kReluBackward.size(),
               kReluBackward + R"json(, "same_strategy_as": "relu/f/relu", "strategies": [
               {"inputs": ["P(max)", "Shard(0)"], "outputs": ["Replicate"], "even": false},
               {"inputs": ["R", "R"], "outputs": ["S(0)"]}])json");
  const Scratch scratch;
  const costs::Graph graph = read_model(scratch.put("m.json", text)).graph_file.graph;
  const costs::Node& relu = graph.nodes[6];
  EXPECT_EQ(relu.flops, 7);
  EXPECT_EQ(relu.same_strategy_as, -1);
  ASSERT_EQ(relu.strategies.size(), 2U);
  EXPECT_FALSE(relu.strategies[0].even);
  EXPECT_TRUE(relu.strategies[0].mesh_dims.empty());
  EXPECT_THAT(relu.strategies[1].inputs, ElementsAre(costs::Placement::shard(1)));
  EXPECT_THAT(relu.strategies[1].outputs, ElementsAre(costs::Placement::partial()));
  EXPECT_TRUE(relu.strategies[1].even);
  EXPECT_THAT(relu.strategies[1].mesh_dims, ElementsAre("ep", "tp"));
  const costs::Node& backward = graph.nodes[14];
  EXPECT_EQ(backward.same_strategy_as, 6);
  EXPECT_EQ(backward.flops, -1);
  EXPECT_THAT(backward.strategies[0].inputs,
              ElementsAre(costs::Placement::partial(costs::ReduceOp::kMax), costs::Placement::shard(0)));
  EXPECT_TRUE(graph.nodes[5].strategies.empty());
}

// Counts can be pending sums; bools, whose addition saturates, cannot.
TEST(ReadModelTest, pending_sums_are_for_dtypes_that_collectives_add) {
  const auto with_output = [](const std::string& dtype, const std::string& placement) {
    return tiny_with(
        R"("outputs": [{"shape": [1024, 4096], "stride": [4096, 1], "dtype": "bfloat16"}], "module": "fc2",)",
        R"("outputs": [{"shape": [1024, 4096], "stride": [4096, 1], "dtype": "bfloat16"}, null,
                        {"shape": [8], "stride": [1], "dtype": ")" +
            dtype + R"("}], "module": "fc2",
                        "strategies": [{"inputs": ["R", "R"], "outputs": ["R", null, ")" +
            placement + "\"]}],");
  };
  const Scratch scratch;
  EXPECT_EQ(
      read_model(scratch.put("m.json", with_output("int64", "P(sum)"))).graph_file.graph.nodes[12].strategies.size(),
      1U);
  const std::string path = scratch.put("m.json", with_output("bool", "P(sum)"));
  EXPECT_THAT(input_error([&] { read_model(path); }),
              HasSubstr("nodes[8] (fc2/b/mm).strategies[0].outputs[2]: a tensor of bool cannot be a pending sum"));
}

struct Fault {
  std::string from;
  std::string to;
  std::string message;
};

class ModelFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(ModelFaultTest, is_refused_with_its_place) {
  const Scratch scratch;
  const std::string path = scratch.put("m.json", tiny_with(GetParam().from, GetParam().to));
  const std::string message = input_error([&] { read_model(path); });
  EXPECT_THAT(message, ::testing::StartsWith(path + ": "));
  EXPECT_THAT(message, HasSubstr(GetParam().message));
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

const std::string kMm = R"("args": [{"ref": "input.x"}, {"ref": "fc1/f/t"}])";
const std::string kX = R"("name": "x", "shape": [65536, 1024])";
const std::string kGradient = R"("of": "fc1.weight")";
const std::string kMesh = R"({"shape": [4], "dim_names": ["tp"]})";

/// The relu of the tiny example with one strategy.
Fault strategy_fault(const std::string& strategy, const std::string& message) {
  return {kRelu, kRelu + ", \"strategies\": [{" + strategy + "}]", "nodes[2] (relu/f/relu).strategies[0]" + message};
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, ModelFaultTest,
    ::testing::Values(
        Fault{kRelu, kRelu + R"(, "strategies": [])", "nodes[2] (relu/f/relu).strategies: is empty"},
        Fault{kRelu, kRelu + R"(, "strategies": {})", "strategies: expected a list"},
        strategy_fault(R"("inputs": ["R"])", ": key \"outputs\" is missing"),
        strategy_fault(R"("inputs": ["R"], "outputs": ["R"], "units": 2)", ": unknown key \"units\""),
        strategy_fault(R"("inputs": [], "outputs": ["R"])", ".inputs: 0 placements for 1 tensors"),
        strategy_fault(R"("inputs": ["R", "R"], "outputs": ["R"])", ".inputs: 2 placements for 1 tensors"),
        strategy_fault(R"("inputs": ["R"], "outputs": ["R", "R"])", ".outputs: 2 placements for 1 outputs"),
        strategy_fault(R"("inputs": ["S"], "outputs": ["R"])",
                       ".inputs[0]: unknown placement \"S\"; expected R, S(0), P(sum) or the like"),
        strategy_fault(R"json("inputs": ["S(-1)"], "outputs": ["R"])json", ".inputs[0]: unknown placement \"S(-1)\""),
        strategy_fault(R"json("inputs": ["R"], "outputs": ["S(2)"])json", ".outputs[0]: S(2) of a tensor with 2 dims"),
        strategy_fault(R"("inputs": ["R"], "outputs": [null])", ".outputs[0]: expected a string, found null"),
        strategy_fault(R"("inputs": ["R"], "outputs": ["R"], "even": 1)", ".even: expected true or false"),
        strategy_fault(R"("inputs": ["R"], "outputs": ["R"], "mesh_dims": [])", ".mesh_dims: is empty"),
        strategy_fault(R"("inputs": ["R"], "outputs": ["R"], "mesh_dims": [0])", ".mesh_dims[0]: expected a string"),
        Fault{kRelu, kRelu + R"(, "flops": -1)", "nodes[2] (relu/f/relu).flops: -1 is negative"},
        Fault{kRelu, kRelu + R"(, "flops": 1.5)", "flops: expected an integer"},
        Fault{kRelu, kRelu + R"(, "same_strategy_as": "relu/b/threshold_backward")",
              "same_strategy_as: \"relu/b/threshold_backward\" is not an earlier node"},
        Fault{kRelu, kRelu + R"(, "same_strategy_as": "relu/f/relu")", "\"relu/f/relu\" is not an earlier node"},
        Fault{kRelu, kRelu + R"(, "same_strategy_as": "gelu")", "same_strategy_as: unknown node \"gelu\""},
        Fault{kRelu, kRelu + R"(, "same_strategy_as": "fc1/f/mm")",
              "same_strategy_as: \"fc1/f/mm\" has 0 strategies, this node 0; expected as many, and some"}));

INSTANTIATE_TEST_SUITE_P(
    Table, ModelFaultTest,
    ::testing::Values(
        Fault{"\"autopar-model\"", "\"autopar-plan\"", "format: expected \"autopar-model\", found \"autopar-plan\""},
        Fault{"\"version\": 1", "\"version\": 2", "version: this program reads version 1, found 2"},
        Fault{"\"version\": 1", "\"version\": \"1\"", "version: expected an integer, found a string"},
        Fault{"\"name\": \"tiny_mlp\"", "\"names\": \"tiny_mlp\"", "unknown key \"names\""},
        Fault{"\"name\": \"tiny_mlp\",", "", "key \"name\" is missing"},
        Fault{"\"name\": \"tiny_mlp\"", "\"name\": \"a\", \"name\": \"b\"", "key \"name\" is there twice"},
        Fault{kMm, R"("args": [{"ref": "input.y"}])",
              "nodes[1] (fc1/f/mm).args[0]: refers to unknown node \"input.y\"; expected the key of an earlier node or "
              "input"},
        Fault{kMm, R"("args": [[{"ref": "fc2/f/mm"}]])",
              "args[0][0]: refers to \"fc2/f/mm\", which stands later (nodes[4])"},
        Fault{kMm, R"("args": [{"ref": "fc1/f/mm"}])", "args[0]: refers to \"fc1/f/mm\", which is this node itself"},
        Fault{kMm, R"("args": [{"ref": "input.x", "output": 1}])",
              "args[0].output: output 1 of \"input.x\", which has 1"},
        Fault{kMm, R"("args": [{"ref": "input.x", "output": -1}])", "output -1 of"},
        Fault{kMm, R"("args": [{"ref": "input.x", "index": 0}])", "unknown key \"index\""},
        Fault{kMm, R"("args": [{"dtype": "float33"}])", "args[0].dtype: unknown dtype \"float33\""},
        Fault{kMm, R"("args": [{"float": "infinity"}])",
              "expected one of \"inf\", \"-inf\", \"nan\"; found \"infinity\""},
        Fault{kMm, R"("args": [{}])", "args[0]: expected one of ref, dtype"},
        Fault{kMm, R"("args": [18446744073709551615])", "does not fit in a signed 64-bit integer"},
        Fault{kMm, R"("args": 3)", "args: expected a list, found an integer"},
        Fault{"\"outputs\": [{\"shape\": [65536, 4096], \"stride\": [4096, 1], \"dtype\": \"bfloat16\"}]",
              "\"outputs\": [null]", "uses output 0 of \"fc1/f/mm\", which is None"},
        Fault{"\"outputs\": [{\"shape\": [65536, 4096], \"stride\": [4096, 1], \"dtype\": \"bfloat16\"}]",
              "\"outputs\": []", "refers to \"fc1/f/mm\", which has no output"},
        Fault{kX, R"("name": "x", "shape": [65536, -1])", "inputs[2] (input.x).shape[1]: -1 is negative"},
        Fault{kX, R"("name": "x", "shape": [65536])", "inputs[2] (input.x).stride: 2 strides for 1 dims"},
        Fault{kX, R"("name": "x", "shape": [9223372036854775807, 9223372036854775807])",
              "shape: more than 2^50 elements"},
        Fault{kX, R"("name": "x", "shape": [4611686018427387904, 0])", "shape: more than 2^50 elements"},
        Fault{kX, R"("name": "x", "shape": [6.5, 2])", "shape[0]: expected an integer, found a number with a fraction"},
        Fault{"\"dtype\": \"bfloat16\"", "\"dtype\": \"bf16\"", "inputs[0] (fc1.weight).dtype: unknown dtype \"bf16\""},
        Fault{"\"role\": \"tangent\"", "\"role\": \"gradient\"",
              "inputs[3] (tangent.loss).role: expected one of \"parameter\""},
        Fault{"\"phase\": \"backward\"", "\"phase\": \"back\"",
              "phase: expected one of \"forward\", \"backward\"; found \"back\""},
        Fault{"\"seq\": 1}", "\"seq\": -1}", "seq: -1 is negative"},
        Fault{"\"key\": \"fc1/f/mm\"", "\"key\": \"fc1/f/t\"", "nodes[1] (fc1/f/t).key: this key is taken by nodes[0]"},
        Fault{"\"key\": \"fc1/f/mm\"", "\"key\": \"\"", "key: is empty"},
        Fault{"\"op\": \"aten.relu.default\"", "\"op\": \"placeholder\"", "op: graph inputs belong in \"inputs\""},
        Fault{"\"name\": \"fc2.weight\"", "\"name\": \"fc1.weight\"",
              "inputs[1] (fc2.weight).name: \"fc1.weight\" is the name of another parameter or buffer"},
        Fault{"\"name\": \"fc2.weight\"", "\"name\": \"fc2.weight\", \"aliases\": [\"fc1.weight\"]",
              "inputs[1] (fc2.weight).aliases[0]: \"fc1.weight\" is the name of another"},
        Fault{kGradient, R"("of": "fc9.weight")", "outputs[1].of: unknown input \"fc9.weight\""},
        Fault{kGradient, R"("of": "fc1/f/mm")", "outputs[1].of: unknown input \"fc1/f/mm\""},
        Fault{kGradient, R"("of": "fc2.weight")",
              "outputs[1].of: the output has shape [4096,1024], the input [1024,4096]"},
        Fault{", \"of\": \"fc1.weight\"", "", "outputs[1]: key \"of\" is missing"},
        Fault{"\"role\": \"loss\"", "\"role\": \"loss\", \"of\": \"input.x\"",
              "outputs[0].of: only a gradient or mutation"},
        Fault{kMesh, R"({"shape": [0]})", "mesh: a mesh dim of 0; expected at least 1"},
        Fault{kMesh, R"({"shape": []})", "mesh: a mesh needs at least one dim"},
        Fault{kMesh, R"({"shape": [2, 2, 2, 2, 2, 2, 2]})", "mesh: 7 dims; at most 6 are possible"},
        Fault{kMesh, R"({"shape": [4, 2], "dim_names": ["tp"]})", "mesh: 1 dim names for 2 dims"},
        Fault{kMesh, R"({"shape": [4, 2], "dim_names": ["tp", "tp"]})", "mesh: two dims are named \"tp\""},
        Fault{kMesh, R"({"shape": [4, 2], "dim_names": ["tp", "a,b"]})", "mesh: dim name \"a,b\""},
        Fault{kMesh, R"({"shape": [4294967296, 4294967296]})", "mesh: more than 16777216 devices"},
        Fault{"\"cluster\": \"h100\"", "\"cluster\": {\"name\": \"x\"}", "cluster: key \"device\" is missing"},
        Fault{"\"cluster\": \"h100\"", "\"cluster\": \"h100\", \"constraints\": {\"pins\": {}}",
              "constraints: unknown key \"pins\""}));

}  // namespace
}  // namespace autopar::io
