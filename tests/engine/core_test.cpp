#include "engine/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/random_network.h"

namespace autopar::engine {
namespace {

using testing::random_network;
using testing::Shape;

/// Two variables; the first uses 1 or 5 at the times 0 to 3 and, on top, 10 or 0 at 2 to 5; the second 2 or 3 at 4.
CostNetwork overlapping() {
  CostNetwork network;
  network.domains = {{{0, 0}, {{1, 5}, {10, 0}}, {}}, {{0, 7}, {{2, 3}}, {}}};
  network.variables = {{0, 0, {{0, 4}, {2, 6}}}, {1, 0, {{4, 5}}}};
  return network;
}

TEST(UsageTest, overlapping_spans_of_a_variable_add_up) {
  CostNetwork network = overlapping();
  const auto over_time = [&](const Assignment& assignment) {
    std::vector<std::int64_t> usage;
    for (std::int32_t t = 0; t < 7; ++t) usage.push_back(usage_at(network, assignment, t));
    return usage;
  };
  EXPECT_THAT(over_time({0, 0}), ::testing::ElementsAre(1, 1, 11, 11, 12, 10, 0));
  EXPECT_THAT(over_time({1, 1}), ::testing::ElementsAre(5, 5, 5, 5, 3, 0, 0));
  EXPECT_EQ(peak_usage(network, {0, 0}), 12);
  EXPECT_EQ(peak_usage(network, {1, 1}), 5);
  network.usage_limit = 11;
  EXPECT_EQ(evaluate(network, {0, 0}), kForbidden);
  EXPECT_EQ(evaluate(network, {1, 1}), 7);
}

bool have_several_overlapping_spans(const Variable& variable) {
  for (std::size_t a = 0; a < variable.spans.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (variable.spans[a].start < variable.spans[b].end && variable.spans[b].start < variable.spans[a].end)
        return true;
    }
  }
  return false;
}

/// Keeps each value with a chance of two in three, and one at least.
LiveValues random_live(const CostNetwork& network, std::mt19937& random) {
  LiveValues live = all_values(network);
  for (std::vector<std::int32_t>& values : live) {
    const std::int32_t kept = values[random() % values.size()];
    std::erase_if(values, [&](std::int32_t value) { return value != kept && random() % 3 == 0; });
  }
  return live;
}

/// Whether `choice`, positions in `live`, is within the core's capacity at each of its points.
bool fits(const Core& core, const std::vector<std::int32_t>& choice) {
  std::vector<std::int64_t> left = core.capacity();
  for (std::size_t v = 0; v < choice.size(); ++v) core.variables()[v].usage.add(choice[v], -1, left);
  return std::all_of(left.begin(), left.end(), [](std::int64_t amount) { return amount >= 0; });
}

TEST(CoreTest, its_points_allow_what_the_limit_allows_at_every_time) {
  Shape shape;
  shape.num_times = 6;
  std::mt19937 random(5);
  int num_overlapping = 0;
  int num_fitting = 0;
  constexpr int kNumNetworks = 200;
  constexpr int kNumChoices = 60;
  for (std::uint32_t seed = 0; seed < kNumNetworks; ++seed) {
    shape.percent_limit = 20 + 10 * static_cast<int>(seed % 4);
    const CostNetwork network = random_network(seed, shape);
    num_overlapping += static_cast<int>(
        std::count_if(network.variables.begin(), network.variables.end(), have_several_overlapping_spans));
    const LiveValues live = random_live(network, random);
    const Core core(network, live);
    for (int i = 0; i < kNumChoices; ++i) {
      std::vector<std::int32_t> choice;
      Assignment assignment;
      for (const std::vector<std::int32_t>& values : live) {
        choice.push_back(static_cast<std::int32_t>(random() % values.size()));
        assignment.push_back(values[static_cast<std::size_t>(choice.back())]);
      }
      const bool is_allowed = peak_usage(network, assignment) <= network.usage_limit;
      ASSERT_EQ(fits(core, choice), is_allowed) << "seed " << seed;
      num_fitting += is_allowed ? 1 : 0;
    }
  }
  EXPECT_GT(num_overlapping, kNumNetworks);
  EXPECT_GT(num_fitting, kNumNetworks * kNumChoices / 10);
  EXPECT_LT(num_fitting, kNumNetworks * kNumChoices * 9 / 10);
}

}  // namespace
}  // namespace autopar::engine
