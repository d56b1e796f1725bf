#include "costs/memory.h"

#include <gtest/gtest.h>

namespace autopar::costs {
namespace {

const Mesh kMesh{{2, 4}, {"dp", "tp"}};

Placements shards(Placement outer, Placement inner) {
  Placements placements;
  placements[0] = outer;
  placements[1] = inner;
  return placements;
}

// ZeRO's count: 2 for the parameter, 2 for its gradient, 12 for Adam in mixed precision.
TEST(MemoryTest, adam_in_mixed_precision_takes_sixteen_bytes_per_element) {
  const TensorMeta parameter{{64, 32}, {32, 1}, DType::kBFloat16};
  EXPECT_EQ(parameter_bytes(parameter, {}, kMesh, {}), 64 * 32 * 16);
  EXPECT_EQ(parameter_bytes(parameter, shards(Placement::shard(0), Placement::shard(0)), kMesh, {}), 8 * 32 * 16);
  EXPECT_EQ(parameter_bytes(parameter, shards(Placement::shard(0), Placement::shard(1)), kMesh, {}), 32 * 8 * 16);
}

TEST(MemoryTest, a_float32_parameter_needs_no_master_copy) {
  const TensorMeta parameter{{64, 32}, {32, 1}, DType::kFloat32};
  EXPECT_EQ(parameter_bytes(parameter, {}, kMesh, {}), 64 * 32 * 16);
  EXPECT_EQ(parameter_bytes(parameter, {}, kMesh, {0, 4}), 64 * 32 * 8);
}

TEST(MemoryTest, the_largest_piece_counts) {
  // 10 by 2 and then 4: pieces of 5, then of 2.
  const TensorMeta parameter{{10}, {1}, DType::kFloat16};
  EXPECT_EQ(parameter_bytes(parameter, shards(Placement::shard(0), Placement::replicate()), kMesh, {}), 5 * 16);
  EXPECT_EQ(parameter_bytes(parameter, shards(Placement::shard(0), Placement::shard(0)), kMesh, {}), 2 * 16);
}

}  // namespace
}  // namespace autopar::costs
