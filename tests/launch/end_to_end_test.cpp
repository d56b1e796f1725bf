#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/io/tiny.h"
#include "tests/launch/check_plan.h"
#include "tests/launch/program.h"

// The real program on the tiny example, whose best plan is known (examples/tiny/README.md).
namespace autopar::launch {
namespace {

using nlohmann::json;
using testing::Outcome;
using testing::run_program;
using testing::run_ranks;
using testing::Scratch;
using testing::slurp;
using testing::tiny_path;

const std::string kTiny = "'" + tiny_path() + "'";
const std::string kCluster = " --cluster '" AUTOPAR_SOURCE_DIR "/tests/io/cluster.json'";

std::string to(const Scratch& scratch) { return " -o '" + scratch.path("plan.json") + "'"; }

json plan_in(const Scratch& scratch) { return json::parse(slurp(scratch.path("plan.json"))); }

TEST(EndToEndTest, the_tiny_example_gets_its_best_plan) {
  const Scratch scratch;
  const Outcome outcome = run_program(kTiny + to(scratch));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ::testing::HasSubstr("proven optimal"));
  const json plan = plan_in(scratch);
  EXPECT_THAT(testing::check_plan(json::parse(slurp(tiny_path())), plan), ::testing::IsEmpty());
  EXPECT_EQ(plan["parameters"], json::parse(R"json({"fc1.weight": ["S(0)"], "fc2.weight": ["S(1)"]})json"));
  EXPECT_EQ(scratch.num_files(), 1U);
}

TEST(EndToEndTest, a_compiled_step_takes_less_time) {
  const Scratch scratch;
  const std::string compiled =
      scratch.put("c.json", R"json({"format": "autopar-constraints", "version": 1, "compiled": true})json");
  const std::string model = "'" AUTOPAR_SOURCE_DIR "/tests/models/transformer.json' --mesh 2,2" + kCluster;
  ASSERT_EQ(run_program(model + " --overlap none" + to(scratch)).exit_code, 0);
  const auto alone = plan_in(scratch)["totals"]["compute_ps"].get<std::int64_t>();
  ASSERT_EQ(run_program(model + " --overlap none --constraints '" + compiled + "'" + to(scratch)).exit_code, 0);
  EXPECT_LT(plan_in(scratch)["totals"]["compute_ps"].get<std::int64_t>(), alone);
}

TEST(EndToEndTest, what_runs_again_is_what_was_asked_for) {
  const Scratch scratch;
  const std::string model = "'" AUTOPAR_SOURCE_DIR "/tests/models/transformer.json' --mesh 2" + kCluster;
  const auto recomputed = [&](const std::string& list) {
    const std::string pins =
        scratch.put("c.json", R"json({"format": "autopar-constraints", "version": 1, "recompute": )json" + list + "}");
    run_program(model + " --constraints '" + pins + "'" + to(scratch));
    return plan_in(scratch)["recompute"];
  };
  EXPECT_THAT(recomputed("[]"), ::testing::IsEmpty());
  const json some = recomputed(R"json(["layers.*/f/silu"])json");
  ASSERT_FALSE(some.empty());
  for (const json& key : some) EXPECT_THAT(key.get<std::string>(), ::testing::EndsWith("/f/silu"));
}

TEST(EndToEndTest, plans_on_many_meshes_are_consistent) {
  const json model = json::parse(slurp(tiny_path()));
  for (const char* mesh : {"1", "3", "8", "2,2", "4,1", "1,8", "dp=2,tp=4", "2,2,2"}) {
    SCOPED_TRACE(mesh);
    const Scratch scratch;
    // The cluster's 1 GB would be too little for one device.
    const std::string limit = scratch.put(
        "c.json", R"json({"format": "autopar-constraints", "version": 1, "memory_limit_bytes": 4294967296})json");
    const Outcome outcome =
        run_program(kTiny + kCluster + " --constraints '" + limit + "' --quiet --mesh " + mesh + to(scratch));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out + outcome.err, "");
    EXPECT_THAT(testing::check_plan(model, plan_in(scratch)), ::testing::IsEmpty());
  }
}

TEST(EndToEndTest, the_plan_is_the_same_for_all_numbers_of_ranks_and_threads) {
  std::string first;
  for (const int ranks : {1, 2, 3}) {
    for (const int threads : {1, 2}) {
      const Scratch scratch;
      const Outcome outcome =
          run_ranks(ranks, kTiny + " --mesh 2,2 --reproducible --threads " + std::to_string(threads) + to(scratch));
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
      const std::string text = slurp(scratch.path("plan.json"));
      if (first.empty()) first = text;
      EXPECT_EQ(text, first) << ranks << " ranks, " << threads << " threads";
    }
  }
  EXPECT_EQ(first.find("\"run\""), std::string::npos);
}

TEST(EndToEndTest, pins_are_kept) {
  const Scratch scratch;
  const std::string pins = scratch.put("c.json", R"json({"format": "autopar-constraints", "version": 1,
      "parameters": {"fc1.weight": {"tp": "R"}}, "outputs": {"loss": {"tp": "R"}}})json");
  ASSERT_EQ(run_program(kTiny + " --constraints '" + pins + "'" + to(scratch)).exit_code, 0);
  const json plan = plan_in(scratch);
  EXPECT_EQ(plan["parameters"]["fc1.weight"], json::parse(R"json(["R"])json"));
  EXPECT_THAT(testing::check_plan(json::parse(slurp(tiny_path())), plan), ::testing::IsEmpty());
  EXPECT_NE(plan["constraints_hash"], nullptr);
}

/// The tiny example whose relu has strategies of its own.
std::string tiny_with_relu(const std::string& strategies) {
  const std::string relu = R"("module": "relu", "phase": "forward", "seq": 2)";
  return testing::tiny_with(relu, relu + ", \"strategies\": [" + strategies + "]");
}

TEST(EndToEndTest, strategies_in_the_model_file_are_kept) {
  const Scratch scratch;
  const std::string text = tiny_with_relu(R"json({"inputs": ["S(0)"], "outputs": ["S(0)"], "even": true})json");
  const std::string model = scratch.put("m.json", text);
  const Outcome outcome = run_program("'" + model + "' --mesh 2,2" + to(scratch));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json plan = plan_in(scratch);
  EXPECT_THAT(testing::check_plan(json::parse(text), plan), ::testing::IsEmpty());
  EXPECT_EQ(plan["nodes"]["relu/f/relu"]["outputs"], json::parse(R"json([["S(0)", "S(0)"]])json"));
}

TEST(EndToEndTest, strategies_that_no_mesh_dim_can_take_are_infeasible) {
  const Scratch scratch;
  const std::string model = scratch.put(
      "m.json", tiny_with_relu(R"json({"inputs": ["S(0)"], "outputs": ["S(0)"], "mesh_dims": ["ep"]})json"));
  const Outcome outcome = run_program("'" + model + "'" + to(scratch));
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("\"relu/f/relu\" (aten.relu.default) can run in none of the ways"));
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("none is for mesh dim \"tp\"; they are for \"ep\""));
  EXPECT_EQ(scratch.num_files(), 1U);
}

// A maximum that nobody makes: found by the search, which names the list.
TEST(EndToEndTest, strategies_whose_inputs_cannot_be_had_are_infeasible) {
  const Scratch scratch;
  const std::string model =
      scratch.put("m.json", tiny_with_relu(R"json({"inputs": ["P(max)"], "outputs": ["R"]})json"));
  const Outcome outcome = run_program("'" + model + "'" + to(scratch));
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("the strategies that the model lists for \"relu/f/relu\""));
}

class RandomPlanTest : public ::testing::Test {
 protected:
  /// The plan's text; `arguments` say the mesh and the seed.
  std::string plan_text(const std::string& arguments, int ranks = 1) const {
    const Scratch scratch;
    const Outcome outcome = run_ranks(ranks, transformer_ + kCluster + " --reproducible " + arguments + to(scratch));
    EXPECT_EQ(outcome.exit_code, 0) << arguments << outcome.err;
    return slurp(scratch.path("plan.json"));
  }

  /// How many of the nodes' output placements start with each letter.
  static std::map<char, int> kinds(const json& plan) {
    std::map<char, int> counts;
    for (const auto& [key, choice] : plan["nodes"].items()) {
      for (const json& output : choice["outputs"]) {
        for (const json& placement : output) ++counts[placement.get<std::string>()[0]];
      }
    }
    return counts;
  }

  const std::string path_ = AUTOPAR_SOURCE_DIR "/tests/models/transformer.json";
  const std::string transformer_ = "'" + path_ + "'";
  const json model_ = json::parse(slurp(path_));
};

TEST_F(RandomPlanTest, seeds_give_odd_plans_that_are_allowed) {
  for (const std::string mesh : {"2,2", "2,2,2"}) {
    std::vector<json> plans;
    for (const char* seed : {"1", "2"}) {
      SCOPED_TRACE(mesh + " seed " + seed);
      const json& plan = plans.emplace_back(json::parse(plan_text("--mesh " + mesh + " --random-plan " + seed)));
      EXPECT_THAT(testing::check_plan(model_, plan), ::testing::IsEmpty());
      EXPECT_EQ(plan["result"]["status"], "random");
      EXPECT_EQ(plan["result"]["bound_ps"], 0);
      EXPECT_EQ(plan["result"]["gap"], 1);
      auto counts = kinds(plan);
      const int least = (counts['R'] + counts['S'] + counts['P']) / 10;
      for (const char kind : {'R', 'S', 'P'}) EXPECT_GT(counts[kind], least) << kind;
    }
    std::size_t num_equal = 0;
    for (const auto& [key, choice] : plans[0]["nodes"].items()) {
      num_equal += choice["outputs"] == plans[1]["nodes"][key]["outputs"] ? 1U : 0U;
    }
    EXPECT_LT(num_equal, plans[0]["nodes"].size() / 4);
  }
}

TEST_F(RandomPlanTest, a_seed_gives_one_plan_whatever_the_ranks_and_threads) {
  const std::string plan = plan_text("--mesh 2,2,2 --random-plan 7 --threads 1");
  EXPECT_EQ(plan_text("--mesh 2,2,2 --random-plan 7 --threads 2"), plan);
  EXPECT_EQ(plan_text("--mesh 2,2,2 --random-plan 7 --threads 2", 3), plan);
}

TEST_F(RandomPlanTest, pins_and_the_memory_limit_are_kept) {
  const Scratch scratch;
  const std::string pins = scratch.put("c.json", R"json({"format": "autopar-constraints", "version": 1,
      "memory_limit_bytes": 90000, "outputs": {"loss": {"d0": "R", "d1": "R"}}})json");
  for (const char* seed : {"1", "2", "3"}) {
    const json plan =
        json::parse(plan_text("--mesh d0=2,d1=2,d2=2 --constraints '" + pins + "' --random-plan " + std::string(seed)));
    EXPECT_THAT(testing::check_plan(model_, plan), ::testing::IsEmpty());
    EXPECT_EQ(plan["totals"]["memory_limit_bytes"], 90000);
    for (const json& output : plan["outputs"]) {
      if (output["role"] != "loss") continue;
      EXPECT_EQ(output["placements"][0], "R");
      EXPECT_EQ(output["placements"][1], "R");
    }
  }
}

/// What the program says, on stderr, of constraints that cannot be kept.
std::string refusal(const std::string& model, const std::string& constraints, int ranks = 1) {
  const Scratch scratch;
  const std::string file =
      scratch.put("c.json", R"({"format": "autopar-constraints", "version": 1, )" + constraints + "}");
  const Outcome outcome = run_ranks(ranks, model + " --constraints '" + file + "'" + to(scratch));
  EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(scratch.num_files(), 1U);
  // mpirun adds lines of its own; the file's folder is another one each time.
  const std::size_t begin = outcome.err.find("autopar-search: error: ");
  if (begin == std::string::npos) return "";
  std::string text = outcome.err.substr(begin, outcome.err.find('\n', begin) - begin);
  for (std::size_t at = text.find(file); at != std::string::npos; at = text.find(file)) {
    text.replace(at, file.size(), "c.json");
  }
  return text;
}

/// The bytes that stand in brackets first behind `phrase`.
std::int64_t bytes_behind(const std::string& text, const std::string& phrase) {
  const std::size_t at = text.find(phrase);
  EXPECT_NE(at, std::string::npos) << phrase << " in " << text;
  return at == std::string::npos ? 0 : std::stoll(text.substr(text.find('(', at) + 1));
}

TEST(EndToEndTest, too_little_memory_is_infeasible_and_a_limit_that_will_do_is_told) {
  const std::string text = refusal(kTiny, R"("memory_limit_bytes": 1000)");
  EXPECT_THAT(text, ::testing::HasSubstr("no plan keeps within 1000 B (1000 bytes) per device"));
  const std::int64_t least = bytes_behind(text, "Every plan needs at least");
  const std::int64_t enough = bytes_behind(text, "with a limit of");
  EXPECT_LE(least, enough);
  refusal(kTiny, "\"memory_limit_bytes\": " + std::to_string(least - 1));
  const Scratch scratch;
  const std::string file =
      scratch.put("c.json", R"({"format": "autopar-constraints", "version": 1, "memory_limit_bytes": )" +
                                std::to_string(enough) + "}");
  EXPECT_EQ(run_program(kTiny + " --constraints '" + file + "'" + to(scratch)).exit_code, 0);
  EXPECT_LE(plan_in(scratch)["totals"]["peak"]["bytes"].get<std::int64_t>(), enough);
}

TEST(EndToEndTest, more_devices_are_advised_if_they_are_enough) {
  const std::string text = refusal(kTiny, R"("memory_limit_bytes": 30000000)");
  const std::size_t at = text.find("(--mesh tp=");
  ASSERT_NE(at, std::string::npos) << text;
  const std::string mesh = text.substr(at + 1, text.find(')', at) - at - 1);
  const Scratch scratch;
  const std::string file =
      scratch.put("c.json", R"({"format": "autopar-constraints", "version": 1, "memory_limit_bytes": 30000000})");
  const Outcome outcome = run_program(kTiny + " --time-limit 20 --constraints '" + file + "' " + mesh + to(scratch));
  EXPECT_THAT(outcome.exit_code, ::testing::AnyOf(0, 3)) << outcome.err;
}

TEST(EndToEndTest, pins_in_the_way_are_named) {
  const std::int64_t enough = bytes_behind(refusal(kTiny, R"("memory_limit_bytes": 1000)"), "with a limit of");
  const std::string limit = "\"memory_limit_bytes\": " + std::to_string(enough);
  EXPECT_THAT(refusal(kTiny, limit + R"(, "parameters": {"*": ["R"]})"),
              ::testing::HasSubstr("without the pin c.json: parameters[\"*\"] there is one within the limit"));
}

TEST(EndToEndTest, what_is_said_of_too_little_memory_does_not_depend_on_the_ranks) {
  const std::string first = refusal(kTiny, R"("memory_limit_bytes": 1000)");
  for (const int ranks : {2, 3}) EXPECT_EQ(refusal(kTiny, R"("memory_limit_bytes": 1000)", ranks), first);
}

}  // namespace
}  // namespace autopar::launch
