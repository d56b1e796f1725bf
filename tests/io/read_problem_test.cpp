#include "io/read_problem.h"

#include <gmock/gmock.h>

#include "io/file.h"
#include "tests/io/scratch.h"

namespace autopar::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::input_error;

std::string example() { return read_file(AUTOPAR_SOURCE_DIR "/tests/iopddl/example.json"); }

/// The example with `from` replaced by `to`, once.
std::string example_with(const std::string& from, const std::string& to) {
  std::string text = example();
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

engine::CostNetwork network_of(const std::string& text) { return read_problem("p.json", text).network; }

TEST(ReadProblemTest, the_example_is_read) {
  const TableProblem problem = read_problem("p.json", example());
  EXPECT_EQ(problem.name, "example");
  const engine::CostNetwork& network = problem.network;
  EXPECT_EQ(network.usage_limit, 50);
  ASSERT_EQ(network.num_variables(), 5);
  EXPECT_THAT(network.domain(2).costs, ElementsAre(25, 45, 35));
  EXPECT_THAT(network.domain(2).usage, ElementsAre(ElementsAre(15, 20, 15)));
  EXPECT_THAT(network.variables[2].spans, ElementsAre(engine::Span{50, 120}));
  ASSERT_EQ(network.edges.size(), 5U);
  const engine::Table& table = network.tables[static_cast<std::size_t>(network.edges[2].table)];
  EXPECT_EQ(table.at(0, 1), 10);
  EXPECT_EQ(table.at(1, 0), 20);
  // By hand: 15 + 65 + 35 + 85 + 95 of nodes, 40 + 40 + 20 + 30 + 70 of edges.
  EXPECT_EQ(engine::evaluate(network, {0, 1, 2, 0, 0}), 495);
  EXPECT_EQ(engine::evaluate(network, {0, 0, 1, 1, 0}), engine::kForbidden);
  EXPECT_EQ(engine::peak_usage(network, {0, 0, 1, 1, 0}), 55);
}

TEST(ReadProblemTest, equal_lists_are_kept_once) {
  // Edge 4 costs what edge 0 does; the shapes are 1 x 2 and 2 x 1.
  const engine::CostNetwork network = network_of(example_with("[70, 60]", "[30, 40]"));
  EXPECT_EQ(network.tables.size(), 5U);
  EXPECT_EQ(network.projections.size(), 3U);
  // Nodes 3 and 1 alike, and so are the edges 1-3 and 3-1.
  const std::string text = R"json({"problem": {"name": "", "nodes": {"intervals": [[0, 9], [3, 4]],
      "costs": [[1, 2], [1, 2]], "usages": [[3, 4], [3, 4]]},
      "edges": {"nodes": [[0, 1], [1, 0]], "costs": [[0, 1, 2, 3], [0, 1, 2, 3]]}, "usage_limit": 7}})json";
  const engine::CostNetwork twins = network_of(text);
  EXPECT_EQ(twins.domains.size(), 1U);
  EXPECT_EQ(twins.tables.size(), 1U);
  EXPECT_EQ(twins.edges.size(), 2U);
}

TEST(ReadProblemTest, usage_that_never_counts_is_left_out) {
  const auto num_spans = [](const std::string& from, const std::string& to) {
    return network_of(example_with(from, to)).variables[0].spans.size();
  };
  EXPECT_EQ(num_spans("[10],", "[10],"), 1U);
  EXPECT_EQ(num_spans("[10],", "[0],"), 0U);
  EXPECT_EQ(num_spans("[30, 70]", "[30, 30]"), 0U);
  EXPECT_EQ(num_spans(",\n    \"usage_limit\": 50", ""), 0U);
  EXPECT_EQ(network_of(example_with(",\n    \"usage_limit\": 50", "")).usage_limit, -1);
}

TEST(ReadProblemTest, costs_from_1e18_on_are_forbidden) {
  EXPECT_EQ(network_of(example_with("[55, 65]", "[55, 1000000000000000000]")).domain(1).costs[1], engine::kForbidden);
  EXPECT_EQ(network_of(example_with("[55, 65]", "[55, 9223372036854775807]")).domain(1).costs[1], engine::kForbidden);
  EXPECT_EQ(network_of(example_with("[55, 65]", "[55, 900000000000000000]")).domain(1).costs[1], 900000000000000000);
}

TEST(ReadProblemTest, an_edge_from_a_node_to_itself_is_a_cost_of_the_node) {
  std::string text = example_with("[0, 1],\n        [0, 2]", "[1, 1],\n        [0, 2]");
  text.replace(text.find("[30, 40]"), 8, "[1, 1000, 1000000000000000000, 2]");
  const engine::CostNetwork network = network_of(text);
  EXPECT_THAT(network.domain(1).costs, ElementsAre(56, 67));
  EXPECT_EQ(network.edges.size(), 4U);
}

TEST(ReadProblemTest, keys_may_stand_in_any_order_and_names_hold_escapes) {
  const TableProblem problem = read_problem("p.json", R"json({"problem": {"edges": {"costs": [[5, 6]],
      "nodes": [[1, 0]]}, "nodes": {"usages": [[0, 0], [0]], "costs": [[1, 2], [3]], "intervals": [[0, 0], [0, 1]]},
      "name": "a\"\\\u00e9"}})json");
  EXPECT_EQ(problem.name, "a\"\\é");
  EXPECT_EQ(engine::evaluate(problem.network, {1, 0}), 11);
}

struct Fault {
  std::string from;
  std::string to;
  std::string message;
};

TEST(ReadProblemTest, faults_are_named_with_their_place) {
  const std::vector<Fault> faults = {
      {"[25, 45, 35]", "[25, 1.5, 35]", "problem.nodes.costs[2][1]: expected an integer, found 1.5"},
      {"[25, 45, 35]", "[25, NaN, 35]", "problem.nodes.costs[2][1]: expected an integer, found NaN"},
      {"[25, 45, 35]", "[25, -Infinity, 35]", "problem.nodes.costs[2][1]: expected an integer, found -Infinity"},
      {"[25, 45, 35]", "[25, 1e3, 35]", "problem.nodes.costs[2][1]: expected an integer, found 1e3"},
      {"[25, 45, 35]", "[25, 045, 35]", "problem.nodes.costs[2][1]: expected an integer, found 045"},
      {"[25, 45, 35]", "[25, null, 35]", "problem.nodes.costs[2][1]: expected an integer, found null"},
      {"[25, 45, 35]", "[25, \"45\", 35]", "problem.nodes.costs[2][1]: expected an integer, found a string"},
      {"[25, 45, 35]", "[25, [45], 35]", "problem.nodes.costs[2][1]: expected an integer, found a list"},
      {"[25, 45, 35]", "[25, 45, 9223372036854775808]",
       "problem.nodes.costs[2][2]: 9223372036854775808 does not fit in a signed 64-bit integer"},
      {"[25, 45, 35]", "[25, -45, 35]", "problem.nodes.costs[2][1]: -45 is negative"},
      {"[25, 45, 35]", "[25, 45, 35", "problem.nodes.costs[2][3]: expected an integer, found a list"},
      {"[25, 45, 35]", "[]", "problem.nodes.costs[2]: is empty: the node has no strategy"},
      {"[25, 45, 35]", "[900000000000000000, 45, 35]", ""},
      {"[15],\n        [55, 65]", "[500000000000000000],\n        [500000000000000000, 65]",
       "problem.nodes.costs[1]: with these node costs the largest costs add up to 10^18 or more"},
      {"[25, 25]", "[25]", "problem.nodes.usages[1]: 1 usages for 2 strategies"},
      {"[25, 25]", "[25, -1]", "problem.nodes.usages[1][1]: -1 is negative"},
      {"[25, 25]", "[25, 1000000000000000000]",
       "problem.nodes.usages[1]: with these the largest usages add up to 10^18 or more"},
      {"[40, 70]", "[70, 40]", "problem.nodes.intervals[1]: ends at 40, before its start at 70"},
      {"[40, 70]", "[-40, 70]", "problem.nodes.intervals[1][0]: -40 is negative"},
      {"[40, 70]", "[40, 70, 80]", "problem.nodes.intervals[1]: expected [start, end], found 3 numbers"},
      {"[40, 70]", "[40, 2147483648]", "problem.nodes.intervals[1][1]: expected a time of at most 2147483647"},
      {"[40, 70],\n", "", "problem.nodes.intervals: 4 items, but nodes.costs has 5"},
      {"[25, 25],\n", "", "problem.nodes.usages: 4 items, but nodes.costs has 5"},
      {"[90, 10, 20, 80]", "[90, 10, 20]", "problem.edges.costs[2]: 3 costs for 2 x 2 strategies of nodes 1 and 3"},
      {"[90, 10, 20, 80]", "[90, 10, 20, -80]", "problem.edges.costs[2][3]: -80 is negative"},
      {"[90, 10, 20, 80],\n", "", "problem.edges.costs: 4 items, but edges.nodes has 5"},
      {"[1, 3]", "[1, 5]", "problem.edges.nodes[2][1]: there is no node 5: the file has 5"},
      {"[1, 3]", "[-1, 3]", "problem.edges.nodes[2][0]: there is no node -1"},
      {"[1, 3]", "[1, 3, 4]", "problem.edges.nodes[2]: expected two nodes, found 3"},
      {"\"usage_limit\": 50", "\"usage_limit\": -1", "problem.usage_limit: -1 is negative"},
      {"\"usage_limit\": 50", "\"usage_limits\": 50",
       "problem: unknown key \"usage_limits\"; expected name, nodes, edges, usage_limit"},
      {"\"usages\"", "\"costs\"", "problem.nodes: key \"costs\" is there twice"},
      {"\"name\": \"example\",", "", "problem: key \"name\" is missing"},
      {"\"name\": \"example\",", "\"name\": 7,", "problem.name: expected a string, found 7"},
      {"\"name\": \"example\",", "\"name\": \"\\x\",", "line 3, column 13 in problem.name: not JSON: a string that"},
      {"\"intervals\": [", "\"intervals\": {", "problem.nodes.intervals: expected a list"},
      {"[55, 65]", "[55 65]", "line 14, column 13 in problem.nodes.costs[1][0]: not JSON: expected ',' or ']'"},
  };
  for (const Fault& fault : faults) {
    const std::string text = example_with(fault.from, fault.to);
    const std::string message = input_error([&] { read_problem("p.json", text); });
    const std::string expected = fault.message.empty() ? "no error" : "p.json: " + fault.message;
    EXPECT_THAT(message, ::testing::StartsWith(expected)) << fault.from << " -> " << fault.to;
  }
}

TEST(ReadProblemTest, damage_around_the_problem_is_refused) {
  EXPECT_THAT(input_error([] { read_problem("p.json", example() + "]"); }), HasSubstr("something follows"));
  EXPECT_EQ(input_error([] { read_problem("p.json", " \n"); }), "p.json: is empty");
  const std::string text = example();
  for (std::size_t size = 1; size + 3 < text.size(); ++size) {
    EXPECT_NE(input_error([&] { read_problem("p.json", std::string_view(text).substr(0, size)); }), "no error") << size;
  }
}

TEST(ReadProblemTest, a_problem_is_told_by_its_outermost_key) {
  EXPECT_TRUE(is_problem(example()));
  EXPECT_TRUE(is_problem(R"( {"note": {"format": [1, "problem"]}, "problem" : 5})"));
  EXPECT_FALSE(is_problem(R"({"format": "autopar-model", "problem": {}})"));
  EXPECT_FALSE(is_problem(R"({"name": "problem", "nodes": [{"problem": 1}]})"));
  for (const char* text : {"", "[\"problem\"]", "{\"", "{\"a\\", "}{", "{", "problem"})
    EXPECT_FALSE(is_problem(text)) << text;
}

}  // namespace
}  // namespace autopar::io
