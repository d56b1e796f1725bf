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

// ZeRO's count: 2 for the parameter, 12 for Adam in mixed precision; the gradient's 2 are a tensor of their own.
TEST(MemoryTest, adam_in_mixed_precision_takes_fourteen_bytes_per_element) {
  const TensorMeta parameter{{64, 32}, {32, 1}, DType::kBFloat16};
  EXPECT_EQ(parameter_bytes(parameter, {}, kMesh, {}), 64 * 32 * 14);
  EXPECT_EQ(parameter_bytes(parameter, shards(Placement::shard(0), Placement::shard(0)), kMesh, {}), 8 * 32 * 14);
  EXPECT_EQ(parameter_bytes(parameter, shards(Placement::shard(0), Placement::shard(1)), kMesh, {}), 32 * 8 * 14);
}

TEST(MemoryTest, a_float32_parameter_needs_no_master_copy) {
  const TensorMeta parameter{{64, 32}, {32, 1}, DType::kFloat32};
  EXPECT_EQ(parameter_bytes(parameter, {}, kMesh, {}), 64 * 32 * 12);
  EXPECT_EQ(parameter_bytes(parameter, {}, kMesh, {0, 4}), 64 * 32 * 4);
}

TEST(MemoryTest, the_largest_piece_counts) {
  // 10 by 2 and then 4: pieces of 5, then of 2.
  const TensorMeta parameter{{10}, {1}, DType::kFloat16};
  EXPECT_EQ(parameter_bytes(parameter, shards(Placement::shard(0), Placement::replicate()), kMesh, {}), 5 * 14);
  EXPECT_EQ(parameter_bytes(parameter, shards(Placement::shard(0), Placement::shard(0)), kMesh, {}), 2 * 14);
}

RedistributeStep step(RedistributeStep::Kind kind, std::uint32_t mesh_dims, Placements from, Placements to) {
  return {kind, mesh_dims, from, to, 0, 0};
}

// What a step needs beside its input and its result: pieces that are not blocks of the first dim are copied into order.
TEST(MemoryTest, collectives_along_another_dim_than_the_first_copy) {
  using Kind = RedistributeStep::Kind;
  const TensorMeta tensor{{64, 64}, {64, 1}, DType::kFloat32};
  constexpr std::int64_t kWhole = 64 * 64 * 4;
  const Placement r = Placement::replicate();
  const Placement s0 = Placement::shard(0);
  const Placement s1 = Placement::shard(1);
  const Placement sum = Placement::partial();
  const auto making = [&](Kind kind, Placement from, Placement to) {
    return making_bytes(tensor, {step(kind, 2, shards(r, from), shards(r, to))}, kMesh);
  };
  EXPECT_EQ(making(Kind::kAllGather, s0, r), 0);
  EXPECT_EQ(making(Kind::kAllGather, s1, r), kWhole);
  EXPECT_EQ(making(Kind::kReduceScatter, sum, s0), 0);
  EXPECT_EQ(making(Kind::kReduceScatter, sum, s1), kWhole);
  EXPECT_EQ(making(Kind::kAllToAll, s0, s1), kWhole / 4);
  EXPECT_EQ(making(Kind::kAllToAll, s1, s0), kWhole / 4);
  EXPECT_EQ(making(Kind::kAllReduce, sum, r), 0);
  EXPECT_EQ(making(Kind::kSlice, r, s1), 0);
  EXPECT_EQ(making(Kind::kZero, r, sum), 0);
  EXPECT_EQ(making_bytes(tensor, {}, kMesh), 0);
}

TEST(MemoryTest, what_comes_between_two_steps_is_there_with_the_second_ones_result) {
  using Kind = RedistributeStep::Kind;
  const TensorMeta tensor{{64, 64}, {64, 1}, DType::kFloat32};
  constexpr std::int64_t kWhole = 64 * 64 * 4;
  const Placement r = Placement::replicate();
  const Placement s0 = Placement::shard(0);
  const Placements cut = shards(s0, s0);
  // 1/8 is gathered to 1/2 over tp, then to the whole over dp: beside the whole, the half.
  EXPECT_EQ(
      making_bytes(
          tensor, {step(Kind::kAllGather, 2, cut, shards(s0, r)), step(Kind::kAllGather, 1, shards(s0, r), {})}, kMesh),
      kWhole / 2);
  // The whole is made first and cut then: beside the piece, the whole.
  EXPECT_EQ(
      making_bytes(tensor, {step(Kind::kAllGather, 1, shards(s0, r), {}), step(Kind::kSlice, 2, {}, shards(r, s0))},
                   kMesh),
      kWhole);
}

}  // namespace
}  // namespace autopar::costs
