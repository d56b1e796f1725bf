#include "costs/placement.h"

#include <gtest/gtest.h>

#include "costs/graph.h"

namespace autopar::costs {
namespace {

Placements both(Placement placement) {
  Placements placements;
  placements[0] = placements[1] = placement;
  return placements;
}

TEST(PlacementTest, nested_cuts_leave_no_device_empty) {
  const Mesh mesh{{2, 3}, {"a", "b"}};
  for (std::int64_t size = 1; size <= 40; ++size) {
    // The oracle cuts as torch.chunk does and looks at every piece.
    bool all_full = true;
    const std::int64_t outer = (size + 1) / 2;
    for (std::int64_t i = 0; i < 2; ++i) {
      const std::int64_t piece = std::max<std::int64_t>(0, std::min(outer, size - i * outer));
      const std::int64_t inner = (piece + 2) / 3;
      for (std::int64_t j = 0; j < 3; ++j) all_full = all_full && piece - j * inner > 0 && inner > 0;
    }
    EXPECT_EQ(is_legal({{size}, {1}, DType::kFloat32}, both(Placement::shard(0)), mesh), all_full) << size;
  }
}

TEST(PlacementTest, uneven_pieces_are_legal_and_empty_ones_are_not) {
  const Mesh mesh{{8}, {"dp"}};
  Placements placements;
  placements[0] = Placement::shard(0);
  EXPECT_TRUE(is_legal({{50257}, {1}, DType::kFloat32}, placements, mesh));
  EXPECT_FALSE(is_legal({{9}, {1}, DType::kFloat32}, placements, mesh));  // 2, 2, 2, 2, 1, and three empty ones
  EXPECT_FALSE(is_legal({{}, {}, DType::kFloat32}, placements, mesh));    // no such dim
  EXPECT_EQ(local_shape({{50257}, {1}, DType::kFloat32}, placements, mesh), std::vector<std::int64_t>{6283});
}

TEST(PlacementTest, text_goes_round) {
  for (const char* text : {"R", "S(0)", "S(3)", "P(sum)", "P(avg)", "P(max)", "P(min)"}) {
    ASSERT_TRUE(parse_placement(text).has_value()) << text;
    EXPECT_EQ(to_string(*parse_placement(text)), text);
  }
  for (const char* text : {"", "S", "S()", "S(-1)", "S(x)", "P(prod)", "Q"})
    EXPECT_FALSE(parse_placement(text)) << text;
}

}  // namespace
}  // namespace autopar::costs
