#include "launch/cli.h"

#include <gmock/gmock.h>

#include "tests/io/scratch.h"

namespace autopar::launch {
namespace {

using ::testing::ElementsAre;

CommandLine parse(std::vector<std::string> words) {
  words.insert(words.begin(), "autopar-search");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return parse_command_line(static_cast<int>(words.size()), argv.data());
}

TEST(CommandLineTest, defaults) {
  const CommandLine line = parse({"folder/model.json"});
  ASSERT_FALSE(line.exit_code) << line.text;
  EXPECT_EQ(line.arguments.model, "folder/model.json");
  EXPECT_EQ(line.arguments.output, "");
  EXPECT_FALSE(line.arguments.mesh);
  EXPECT_EQ(line.arguments.engine.gap, 0);
  EXPECT_EQ(line.arguments.engine.time_limit_s, 0);
  EXPECT_EQ(line.arguments.engine.threads, 0);
  EXPECT_FALSE(line.arguments.reproducible);
}

TEST(CommandLineTest, all_options) {
  const CommandLine line =
      parse({"m.json", "-o", "p.json", "--mesh", "dp=8,tp=4", "--cluster", "h100", "--constraints", "c.json",
             "--time-limit", "60", "--gap", "0.01", "--threads", "3", "--reproducible", "--quiet"});
  ASSERT_FALSE(line.exit_code) << line.text;
  EXPECT_EQ(line.arguments.output, "p.json");
  EXPECT_THAT(line.arguments.mesh->shape, ElementsAre(8, 4));
  EXPECT_THAT(line.arguments.mesh->dim_names, ElementsAre("dp", "tp"));
  EXPECT_EQ(line.arguments.cluster, "h100");
  EXPECT_EQ(line.arguments.constraints, "c.json");
  EXPECT_EQ(line.arguments.engine.time_limit_s, 60);
  EXPECT_EQ(line.arguments.engine.gap, 0.01);
  EXPECT_EQ(line.arguments.engine.threads, 3);
  EXPECT_TRUE(line.arguments.reproducible);
  EXPECT_TRUE(line.arguments.quiet);
}

TEST(CommandLineTest, a_random_plan_has_a_seed) {
  EXPECT_FALSE(parse({"m.json"}).arguments.random_plan);
  EXPECT_EQ(parse({"m.json", "--random-plan", "0"}).arguments.random_plan, 0U);
  EXPECT_EQ(parse({"m.json", "--random-plan", "18446744073709551615"}).arguments.random_plan, 18446744073709551615U);
  for (const char* seed : {"-1", "x", "1.5", ""}) {
    EXPECT_EQ(parse({"m.json", "--random-plan", seed}).exit_code, 2) << seed;
  }
  EXPECT_THAT(parse({"--help"}).text, ::testing::HasSubstr("Debugging:\n  --random-plan SEED"));
}

TEST(CommandLineTest, plan_stands_beside_the_model) {
  EXPECT_EQ(default_output("a/model.json.gz", "plan"), "a/model.plan.json");
  EXPECT_EQ(default_output("model", "solution"), "model.solution.json");
}

TEST(CommandLineTest, sizes_alone_leave_the_names_open) {
  EXPECT_THAT(parse_mesh("8,4,2").shape, ElementsAre(8, 4, 2));
  EXPECT_TRUE(parse_mesh("8,4,2").dim_names.empty());
}

TEST(CommandLineTest, a_wrong_mesh_is_refused) {
  for (const char* text : {"", ",", "8,", "8,,4", "a", "dp=", "=4", "dp=8,4", "8,tp=4", "dp=2,dp=2", "0", "-1", "8x4",
                           "99999999999999999999", "1,1,1,1,1,1,1", "16777217"}) {
    EXPECT_THAT(testing::input_error([&] { parse_mesh(text); }), ::testing::StartsWith("--mesh: ")) << text;
  }
}

}  // namespace
}  // namespace autopar::launch
