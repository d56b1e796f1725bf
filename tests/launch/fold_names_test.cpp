#include "launch/fold_names.h"

#include <gmock/gmock.h>

namespace autopar::launch {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> fold(const std::vector<NamedFacts>& items) {
  std::vector<std::string> lines;
  for (const FoldedName& item : fold_names(items)) lines.push_back(item.name + " " + item.facts);
  return lines;
}

TEST(FoldNamesTest, layers_with_equal_facts_are_one_line) {
  EXPECT_THAT(fold({{"embed.w", "a"},
                    {"layers.0.q.w", "b"},
                    {"layers.0.k.w", "b"},
                    {"layers.1.q.w", "b"},
                    {"layers.1.k.w", "b"},
                    {"layers.2.q.w", "b"},
                    {"head", "a"}}),
              ElementsAre("embed.w a", "layers.0-2.q.w b", "layers.0-1.k.w b", "head a"));
}

TEST(FoldNamesTest, other_facts_and_gaps_are_told_apart) {
  EXPECT_THAT(fold({{"l.0.w", "a"}, {"l.1.w", "b"}, {"l.2.w", "a"}, {"l.3.w", "a"}, {"l.5.w", "a"}}),
              ElementsAre("l.0,2-3,5.w a", "l.1.w b"));
}

TEST(FoldNamesTest, a_full_grid_is_folded_over_all_its_numbers) {
  EXPECT_THAT(fold({{"l.0.e.0.w", ""}, {"l.0.e.1.w", ""}, {"l.1.e.0.w", ""}, {"l.1.e.1.w", ""}}),
              ElementsAre("l.0-1.e.0-1.w "));
}

TEST(FoldNamesTest, an_incomplete_grid_stands_for_exactly_its_names) {
  EXPECT_THAT(fold({{"l.0.e.0.w", ""}, {"l.0.e.1.w", ""}, {"l.1.e.0.w", ""}}),
              ElementsAre("l.0-1.e.0.w ", "l.0.e.1.w "));
}

TEST(FoldNamesTest, one_name_may_stand_for_several_things) {
  EXPECT_THAT(fold({{"embed.w", "a"}, {"embed.w", "a"}, {"l.0.w", ""}, {"l.0.w", ""}}),
              ElementsAre("embed.w a", "l.0.w "));
}

TEST(FoldNamesTest, keys_of_nodes_have_slashes_too) {
  EXPECT_THAT(fold({{"l.0/f/add.1", ""}, {"l.1/f/add.1", ""}}), ElementsAre("l.0-1/f/add.1 "));
}

TEST(FoldNamesTest, only_whole_parts_are_numbers) {
  EXPECT_THAT(fold({{"w1", ""}, {"w2", ""}, {"a.01", ""}, {"a.02", ""}, {"0", ""}, {"1", ""}}),
              ElementsAre("w1 ", "w2 ", "a.01 ", "a.02 ", "0-1 "));
}

TEST(FoldNamesTest, a_folded_name_says_which_it_stands_for) {
  const std::vector<NamedFacts> items = {{"l.0.w", "a"}, {"l.1.w", "b"}, {"l.2.e.7/f/mm", ""}, {"l.2.w", "a"},
                                         {"l.3.w", "a"}, {"l.5.w", "a"}, {"l.2.e.9/f/mm", ""}, {"l.3.e.9/f/mm", ""}};
  for (const FoldedName& folded : fold_names(items)) {
    std::vector<std::string> names;
    for (const std::size_t member : folded.members) names.push_back(items[member].name);
    EXPECT_THAT(unfold_name(folded.name), ::testing::UnorderedElementsAreArray(names)) << folded.name;
  }
}

TEST(FoldNamesTest, globs_and_names_with_dashes_stand_for_themselves) {
  for (const std::string name : {"", "a", "a.0-x", "l.[0-3].w", "l.*.w", "l.3-1.w", "l.1,.w", "l.-1.w"}) {
    EXPECT_THAT(unfold_name(name), ElementsAre(name));
  }
}

}  // namespace
}  // namespace autopar::launch
