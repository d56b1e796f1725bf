#include "launch/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "engine/stop.h"
#include "io/input_error.h"
#include "tests/io/tiny.h"
#include "tests/launch/program.h"

namespace autopar::launch {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_command;
using testing::run_program;
using testing::run_ranks;
using testing::Scratch;
using testing::slurp;

class CheckpointTest : public ::testing::Test {
 protected:
  std::unique_ptr<Checkpoint> open(Checkpoint::Identity identity = {{"input", "a"}}) {
    return std::make_unique<Checkpoint>(path_, std::move(identity), 1000,
                                        [this](const std::string& warning) { warnings_.push_back(warning); });
  }
  void keep(const std::string& value) {
    const auto checkpoint = open();
    checkpoint->put("key", value);
    checkpoint->close(false);
  }

  Scratch scratch_;
  std::string path_ = scratch_.path("c");
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointTest, what_is_put_is_found_by_the_next_run) {
  EXPECT_FALSE(open()->load());
  const std::string bytes("\0\n\xff", 3);
  keep(bytes);
  const auto next = open();
  ASSERT_TRUE(next->load());
  EXPECT_EQ(next->find("key"), bytes);
  EXPECT_EQ(next->find("other"), std::nullopt);
}

TEST_F(CheckpointTest, a_damaged_file_gives_way_to_the_one_before_it) {
  keep("first");
  keep("second");
  std::string text = slurp(path_);
  for (std::size_t cut : {text.size() - 1, std::size_t{40}, std::size_t{3}, std::size_t{0}}) {
    scratch_.put("c", text.substr(0, cut));
    const auto next = open();
    ASSERT_TRUE(next->load()) << cut;
    EXPECT_EQ(next->find("key"), "first");
    EXPECT_THAT(warnings_.back(), HasSubstr("is damaged; going on from"));
  }
  text[text.size() - 2] ^= 1;
  scratch_.put("c", text);
  EXPECT_EQ((open()->load(), warnings_.size()), 5U);
  scratch_.put("c.previous", "nothing");
  EXPECT_THAT(testing::input_error([&] { open()->load(); }), HasSubstr("c: is damaged; remove it"));
}

TEST_F(CheckpointTest, one_of_another_search_is_refused_by_what_differs) {
  keep("value");
  EXPECT_THAT(testing::input_error([&] { open({{"input", "b"}})->load(); }), HasSubstr("is of a search with input a"));
  scratch_.put("c", "autopar-checkpoint 99\n");
  EXPECT_THAT(testing::input_error([&] { open()->load(); }), HasSubstr("another version of autopar-search"));
}

TEST_F(CheckpointTest, a_signal_has_it_written_at_once_and_the_end_of_the_search_removed) {
  const auto checkpoint = open();
  checkpoint->put("key", "value");
  engine::request_stop(15);
  for (int i = 0; i < 100 && !std::filesystem::exists(path_); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  engine::request_stop(0);
  EXPECT_TRUE(std::filesystem::exists(path_));
  checkpoint->close(true);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// The real program.
const std::string kModel = "'" AUTOPAR_SOURCE_DIR "/tests/models/transformer.json'";
const std::string kCluster = " --cluster '" AUTOPAR_SOURCE_DIR "/tests/io/cluster.json'";

class ResumeTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::string to(const std::string& name) { return " -o '" + scratch_.path(name) + "'"; }
  Scratch scratch_;
};

/// Whenever the signal comes: the run ends with 75 and a checkpoint, or 0 if it was done; others go on, with other
/// numbers of ranks, to the plan of a run that nobody stopped.
TEST_P(ResumeTest, a_search_that_is_stopped_again_and_again_ends_with_the_same_plan) {
  const std::string common = kModel + kCluster + " --reproducible -q " + GetParam();
  ASSERT_EQ(run_program(common + to("whole.json")).exit_code, 0);
  int stops = 0;
  int exit_code = -1;
  for (int run = 0; run < 40 && exit_code != 0; ++run) {
    const double seconds = 0.1 + 0.1 * run;
    exit_code = run_command(fmt::format("timeout --preserve-status -s USR1 {} '{}' {}{} --resume --threads {}", seconds,
                                        AUTOPAR_PROGRAM, common, to("parts.json"), 1 + run % 3))
                    .exit_code;
    ASSERT_THAT(exit_code, ::testing::AnyOf(0, 75));
    stops += exit_code == 75 ? 1 : 0;
  }
  ASSERT_EQ(exit_code, 0);
  EXPECT_GT(stops, 0);
  EXPECT_EQ(slurp(scratch_.path("parts.json")), slurp(scratch_.path("whole.json")));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path("parts.json.checkpoint")));
}

INSTANTIATE_TEST_SUITE_P(Searches, ResumeTest, ::testing::Values("--mesh 2,2,2", "--devices 8"));

TEST(CheckpointRanksTest, ranks_go_on_from_what_one_rank_left) {
  const Scratch scratch;
  const std::string common = kModel + kCluster + " --reproducible -q --devices 8 -o '" + scratch.path("p.json") + "'";
  const Outcome stopped = run_program(common + " --time-limit 0.2");
  ASSERT_THAT(stopped.exit_code, ::testing::AnyOf(3, 5)) << stopped.err;
  const Outcome resumed = run_ranks(3, common + " --resume --threads 1");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  ASSERT_EQ(
      run_program(kModel + kCluster + " --reproducible -q --devices 8 -o '" + scratch.path("w.json") + "'").exit_code,
      0);
  EXPECT_EQ(slurp(scratch.path("p.json")), slurp(scratch.path("w.json")));
}

}  // namespace
}  // namespace autopar::launch
