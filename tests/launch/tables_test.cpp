#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/cost_network.h"
#include "io/file.h"
#include "io/read_problem.h"
#include "tests/engine/random_network.h"
#include "tests/launch/program.h"

// The real program on cost tables.
namespace autopar::launch {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_program;
using testing::run_ranks;
using testing::Scratch;
using testing::slurp;

const std::string kExample = AUTOPAR_SOURCE_DIR "/tests/iopddl/example.json";

std::string quoted(const std::string& path) { return " '" + path + "'"; }

engine::Cost optimum(const std::string& text) {
  return engine::testing::exhaustive_optimum(io::read_problem("p.json", text).network);
}

/// A small cost table; about half of them have solutions.
json random_problem(unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) { return low + static_cast<int>(random() % unsigned(high - low + 1)); };
  const int num_nodes = draw(1, 6);
  json nodes = {{"intervals", json::array()}, {"costs", json::array()}, {"usages", json::array()}};
  for (int i = 0; i < num_nodes; ++i) {
    const int start = draw(0, 9);
    nodes["intervals"].push_back({start, start + draw(0, 5)});
    json costs = json::array();
    json usages = json::array();
    for (int size = draw(1, 4); size > 0; --size) {
      costs.push_back(draw(0, 9) == 0 ? json(1000000000000000000) : json(draw(0, 50)));
      usages.push_back(draw(0, 10));
    }
    nodes["costs"].push_back(costs);
    nodes["usages"].push_back(usages);
  }
  json edges = {{"nodes", json::array()}, {"costs", json::array()}};
  for (int count = draw(0, 9); count > 0; --count) {
    const int u = draw(0, num_nodes - 1);
    const int v = draw(0, num_nodes - 1);
    json costs = json::array();
    for (std::size_t k = nodes["costs"][unsigned(u)].size() * nodes["costs"][unsigned(v)].size(); k > 0; --k) {
      costs.push_back(draw(0, 9) == 0 ? json(1000000000000000000) : json(draw(0, 50)));
    }
    edges["nodes"].push_back({u, v});
    edges["costs"].push_back(costs);
  }
  json problem = {{"name", "random"}, {"nodes", nodes}, {"edges", edges}};
  if (draw(0, 3) > 0) problem["usage_limit"] = draw(8, 25);
  return {{"problem", problem}};
}

TEST(TablesTest, the_example_gets_its_best_solution) {
  const Scratch scratch;
  const Outcome outcome = run_program(quoted(kExample) + " -o" + quoted(scratch.path("s.json")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json solution = json::parse(slurp(scratch.path("s.json")));
  EXPECT_EQ(solution["cost"], optimum(io::read_file(kExample)));
  EXPECT_EQ(solution["bound"], solution["cost"]);
  EXPECT_EQ(solution["gap"], 0);
  EXPECT_EQ(solution["status"], "optimal");
  EXPECT_EQ(json::parse(outcome.out.substr(0, outcome.out.find('\n'))), solution["choices"]);
  EXPECT_THAT(outcome.out, HasSubstr("proven optimal"));
  EXPECT_EQ(solution["timeline"].back()["cost"], solution["cost"]);
  for (const json& point : solution["timeline"]) EXPECT_LE(point["bound"], solution["cost"]);
  const Outcome check = run_program("--check" + quoted(kExample) + quoted(scratch.path("s.json")));
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_THAT(check.out, HasSubstr("Cost   445\nUsage  50 at the peak, time 50, limit 50\n"));
}

TEST(TablesTest, random_tables_get_what_trying_all_finds) {
  int num_infeasible = 0;
  for (unsigned seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    const Scratch scratch;
    const std::string text = random_problem(seed).dump();
    const std::string path = scratch.put("p.json", text);
    const engine::Cost best = optimum(text);
    const Outcome outcome = run_program(quoted(path) + " --threads 1");
    if (best == engine::kForbidden) {
      EXPECT_EQ(outcome.exit_code, 4);
      EXPECT_EQ(outcome.out, "");
      EXPECT_EQ(scratch.num_files(), 1U);
      ++num_infeasible;
      continue;
    }
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(json::parse(slurp(scratch.path("p.solution.json")))["cost"], best);
    EXPECT_EQ(run_program("--check" + quoted(path) + quoted(scratch.path("p.solution.json"))).exit_code, 0);
  }
  EXPECT_GT(num_infeasible, 2);
  EXPECT_LT(num_infeasible, 20);
}

TEST(TablesTest, the_solution_is_the_same_for_all_numbers_of_ranks) {
  std::string first;
  for (const int ranks : {1, 2, 3}) {
    const Scratch scratch;
    ASSERT_EQ(run_ranks(ranks, quoted(kExample) + " --reproducible -q -o" + quoted(scratch.path("s.json"))).exit_code,
              0);
    const std::string text = slurp(scratch.path("s.json"));
    EXPECT_EQ(text.find("\"run\""), std::string::npos);
    EXPECT_EQ(text.find("\"timeline\""), std::string::npos);
    if (first.empty()) first = text;
    EXPECT_EQ(text, first) << ranks;
  }
}

TEST(TablesTest, packed_files_are_recognised_and_the_solution_stands_beside_them) {
  const Scratch scratch;
  const std::string path = scratch.put("any.name", io::read_file(kExample));
  const std::string packed = scratch.path("p.json.gz");
  ASSERT_EQ(testing::run_command("gzip -c" + quoted(path) + " | cat - >" + quoted(packed)).exit_code, 0);
  const Outcome outcome = run_program(quoted(packed) + " --quiet");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "[0, 0, 2, 1, 0]\n");
  EXPECT_EQ(json::parse(slurp(scratch.path("p.solution.json")))["cost"], 445);
}

TEST(TablesTest, a_byte_order_mark_is_passed_over) {
  const Scratch scratch;
  const std::string path = scratch.put("p.json", "\xef\xbb\xbf" + io::read_file(kExample));
  const Outcome outcome = run_program(quoted(path) + " --quiet");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "[0, 0, 2, 1, 0]\n");
  EXPECT_EQ(run_program("--check" + quoted(path) + quoted(scratch.path("p.solution.json"))).exit_code, 0);
}

TEST(TablesTest, options_of_models_are_refused) {
  for (const std::string option :
       {"--mesh 2", "--cluster h100", "--constraints c.json", "--overlap model", "--random-plan 1"}) {
    const Scratch scratch;
    const Outcome outcome = run_program(quoted(kExample) + " " + option + " -o" + quoted(scratch.path("s.json")));
    EXPECT_EQ(outcome.exit_code, 2) << option;
    EXPECT_THAT(outcome.err, HasSubstr("error: " + option.substr(0, option.find(' ')) + ": ")) << option;
    EXPECT_EQ(scratch.num_files(), 0U);
  }
}

TEST(TablesTest, an_output_path_that_is_the_input_is_refused) {
  const Scratch scratch;
  const std::string path = scratch.put("p.json", io::read_file(kExample));
  EXPECT_EQ(run_program(quoted(path) + " -o" + quoted(path)).exit_code, 2);
  EXPECT_EQ(slurp(path), io::read_file(kExample));
}

TEST(TablesTest, a_check_names_what_is_wrong) {
  const Scratch scratch;
  std::string forbidden = io::read_file(kExample);
  forbidden.replace(forbidden.find("[55, 65]"), 8, "[55, 1000000000000000000]");
  forbidden.replace(forbidden.find("[90, 10, 20, 80]"), 16, "[90, 10, 20, 9000000000000000000]");
  const std::string path = scratch.put("p.json", forbidden);
  const auto check = [&](const std::string& solution) {
    return run_program("--check" + quoted(path) + quoted(scratch.put("s.json", solution)));
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[0, 0, 1, 1, 0]",
       "at time 50 the usage is 55, above the limit of 50; most by node 1 (25), node 2 (20), node 0"},
      {"[0, 1, 2, 0, 0]", "strategy 1 of node 1 is forbidden"},
      {"[0, 1, 2, 1, 0]", "edge 2 forbids strategy 1 of node 1 with strategy 1 of node 3"},
      {"[0, 0, 2, 0]", "4 choices for 5 nodes"},
      {"[0, 0, 3, 0, 0]", "choices[2] is 3, but node 2 has strategies 0 to 2"},
      {"[0, 0, -1, 0, 0]", "choices[2] is -1, but node 2 has"},
      {R"({"format": "autopar-solution", "version": 1, "cost": 444, "bound": 0, "choices": [0, 0, 2, 1, 0]})",
       "the file says that the cost is 444; it is 445"},
      {R"({"format": "autopar-solution", "version": 1, "cost": 445, "bound": 446, "choices": [0, 0, 2, 1, 0]})",
       "the file says that no solution costs less than 446; this one costs 445"},
  };
  for (const auto& [solution, message] : cases) {
    const Outcome outcome = check(solution);
    EXPECT_EQ(outcome.exit_code, 6) << solution;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
  EXPECT_EQ(check("[0, 0, 2, 1, 0]").exit_code, 0);
  EXPECT_THAT(check("[0, 0, 2, 0.5, 0]").err, HasSubstr("[3]: expected an integer"));
  EXPECT_EQ(check("[0, 0, 2, 0.5, 0]").exit_code, 2);
  EXPECT_EQ(check("{}").exit_code, 2);
  // Two of the largest numbers add up in 128 bits.
  EXPECT_THAT(check("[0, 1, 2, 1, 0]").out, HasSubstr("Cost   10000000000000000"));
}

TEST(TablesTest, a_time_limit_ends_in_one_of_its_exit_codes) {
  const Scratch scratch;
  const std::string path = AUTOPAR_SOURCE_DIR "/../shared/iopddl/asplos-2025-iopddl-S.json.gz";
  if (slurp(path).empty()) GTEST_SKIP() << "no " << path;
  const Outcome outcome = run_program(quoted(path) + " --time-limit 2 -o" + quoted(scratch.path("s.json")));
  EXPECT_THAT(outcome.exit_code, ::testing::AnyOf(3, 5)) << outcome.err;
  // The solution, and the checkpoint from which --resume goes on.
  EXPECT_EQ(scratch.num_files(), outcome.exit_code == 3 ? 2U : 0U);
}

TEST(TablesTest, an_exported_model_has_the_optimum_of_its_search) {
  const std::string tiny = quoted(AUTOPAR_SOURCE_DIR "/examples/tiny/model.json");
  const auto with_limit = [](const Scratch& scratch, const std::string& bytes) {
    return " --mesh 2,2 --constraints" +
           quoted(scratch.put("c.json", R"({"format": "autopar-constraints", "version": 1, "recompute": [],
               "memory_limit_bytes": )" + bytes +
                                            "}"));
  };
  std::vector<std::int64_t> costs;
  for (const std::string bytes : {"80000000000", "495000000"}) {
    const Scratch scratch;
    const std::string model = tiny + with_limit(scratch, bytes);
    const std::string plan = scratch.path("plan.json");
    ASSERT_EQ(run_program(model + " --overlap none -o" + quoted(plan)).exit_code, 0);
    const Outcome outcome = run_program(model + " --export-problem" + quoted(scratch.path("p.json")));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    ASSERT_EQ(run_program(quoted(scratch.path("p.json"))).exit_code, 0);
    const json solution = json::parse(slurp(scratch.path("p.solution.json")));
    costs.push_back(solution["cost"]);
    EXPECT_EQ(solution["cost"], json::parse(slurp(plan))["result"]["cost_ps"]) << bytes;
  }
  EXPECT_LT(costs[0], costs[1]) << "the limit should bind";
}

TEST(TablesTest, check_and_solution_go_together) {
  EXPECT_EQ(run_program("--check" + quoted(kExample)).exit_code, 2);
  EXPECT_EQ(run_program(quoted(kExample) + quoted(kExample)).exit_code, 2);
}

}  // namespace
}  // namespace autopar::launch
