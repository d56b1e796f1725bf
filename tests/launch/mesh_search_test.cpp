#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/io/tiny.h"
#include "tests/launch/check_plan.h"
#include "tests/launch/program.h"

// The real program, which chooses the mesh.
namespace autopar::launch {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_program;
using testing::run_ranks;
using testing::Scratch;
using testing::slurp;

const std::string kModel = "'" AUTOPAR_SOURCE_DIR "/tests/models/transformer.json'";
const std::string kCluster = " --cluster '" AUTOPAR_SOURCE_DIR "/tests/io/cluster.json'";

class MeshSearchTest : public ::testing::Test {
 protected:
  std::string to(const std::string& name) { return " -o '" + scratch_.path(name) + "'"; }
  json plan_in(const std::string& name) { return json::parse(slurp(scratch_.path(name))); }
  std::string constraints(const std::string& rest) {
    return " --constraints '" +
           scratch_.put("c.json", R"json({"format": "autopar-constraints", "version": 1, )json" + rest + "}") + "'";
  }

  Scratch scratch_;
};

/// "4,2" of {"shape": [4, 2], ...}.
std::string sizes(const json& mesh) {
  std::string text;
  for (const json& size : mesh["shape"]) text += (text.empty() ? "" : ",") + size.dump();
  return text;
}

class MeshObjectiveTest : public MeshSearchTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(MeshObjectiveTest, the_best_of_all_meshes_is_what_searches_of_each_find) {
  const std::string common = kModel + kCluster + " -q " + GetParam();
  const Outcome outcome = run_program(common + " --devices 8" + to("plan.json"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json plan = plan_in("plan.json");
  EXPECT_THAT(testing::check_plan(json::parse(slurp(AUTOPAR_SOURCE_DIR "/tests/models/transformer.json")), plan),
              ::testing::IsEmpty());
  ASSERT_EQ(plan["meshes"].size(), 4U);
  EXPECT_EQ(plan["meshes"][0]["mesh"], plan["mesh"]);
  EXPECT_EQ(plan["meshes"][0]["cost_ps"], plan["result"]["cost_ps"]);
  const auto best = plan["result"]["cost_ps"].get<std::int64_t>();
  const auto bound = plan["result"]["bound_ps"].get<std::int64_t>();
  std::int64_t least = best;
  for (const json& mesh : plan["meshes"]) {
    const std::string alone = sizes(mesh["mesh"]);
    SCOPED_TRACE(alone);
    ASSERT_EQ(run_program(common + " --mesh " + alone + to("alone.json")).exit_code, 0);
    const json result = plan_in("alone.json")["result"];
    least = std::min(least, result["cost_ps"].get<std::int64_t>());
    // What is said of a mesh must not contradict what a search of it alone says.
    EXPECT_LE(mesh["bound_ps"].get<std::int64_t>(), result["cost_ps"].get<std::int64_t>());
    EXPECT_LE(result["bound_ps"].get<std::int64_t>(), mesh["cost_ps"].get<std::int64_t>());
    EXPECT_LE(bound, result["cost_ps"].get<std::int64_t>());
  }
  EXPECT_LE(static_cast<double>(best), 1.0001 * static_cast<double>(least));
}

INSTANTIATE_TEST_SUITE_P(Overlap, MeshObjectiveTest, ::testing::Values("--overlap none", "--overlap model"));

TEST_F(MeshSearchTest, ranks_and_threads_do_not_change_the_plan) {
  const std::string common = kModel + kCluster + " -q --reproducible --devices 8 --max-mesh-dims 2";
  ASSERT_EQ(run_program(common + " --threads 1" + to("one.json")).exit_code, 0);
  ASSERT_EQ(run_ranks(3, common + " --threads 2" + to("three.json")).exit_code, 0);
  EXPECT_EQ(slurp(scratch_.path("one.json")), slurp(scratch_.path("three.json")));
}

TEST_F(MeshSearchTest, a_mesh_that_cannot_meet_the_constraints_is_left_out) {
  const std::string pins = constraints(R"json("parameters": {"layers.0.up.weight": {"tp": "S(0)"}})json");
  const Outcome outcome = run_program(kModel + kCluster + " --devices 4" + pins + to("plan.json"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json meshes = plan_in("plan.json")["meshes"];
  ASSERT_EQ(meshes.size(), 2U);
  EXPECT_EQ(sizes(meshes[0]["mesh"]), "2,2");
  EXPECT_THAT(meshes[1]["left_out"].get<std::string>(), HasSubstr("the mesh has no dim \"tp\""));
  EXPECT_THAT(outcome.out, HasSubstr("left out: "));
}

TEST_F(MeshSearchTest, no_mesh_will_do) {
  const Outcome unmet =
      run_program(kModel + kCluster + " --devices 4 --max-mesh-dims 1" +
                  constraints(R"json("parameters": {"layers.0.up.weight": {"tp": "S(0)"}})json") + to("plan.json"));
  EXPECT_EQ(unmet.exit_code, 2);
  EXPECT_THAT(unmet.err, HasSubstr("the mesh has no dim \"tp\""));
  const Outcome full = run_program(kModel + kCluster + " --devices 4" +
                                   constraints(R"json("memory_limit_bytes": 1000)json") + to("plan.json"));
  EXPECT_EQ(full.exit_code, 4);
  EXPECT_THAT(full.err, HasSubstr("none of 2 meshes of 4 devices has a plan"));
  EXPECT_EQ(scratch_.num_files(), 1U);
}

TEST_F(MeshSearchTest, a_number_that_leaves_no_choice_is_told) {
  const auto err_of = [this](const std::string& options) {
    const Outcome outcome = run_program(kModel + kCluster + " -q " + options + to("plan.json"));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(err_of("--devices 11"), HasSubstr("11 devices have no mesh of more than one dim"));
  EXPECT_EQ(err_of("--devices 16 --max-mesh-dims 1"), "");
  EXPECT_EQ(err_of("--devices 7"), "");
}

TEST_F(MeshSearchTest, bad_numbers_of_devices_are_refused) {
  EXPECT_THAT(run_program(kModel + kCluster + " --devices 0").err, HasSubstr("--devices"));
  EXPECT_EQ(run_program(kModel + kCluster + " --devices 8 --mesh 8").exit_code, 2);
  EXPECT_EQ(run_program(kModel + kCluster + " --max-mesh-dims 2 --mesh 8").exit_code, 2);
  const Outcome many = run_program(kModel + kCluster + " --devices 1048576 --max-mesh-dims 6" + to("plan.json"));
  EXPECT_EQ(many.exit_code, 2);
  EXPECT_THAT(many.err, HasSubstr("give another --max-mesh-dims"));
}

}  // namespace
}  // namespace autopar::launch
