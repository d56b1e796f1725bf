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

constexpr Placement kR = Placement::replicate();
constexpr Placement kS0 = Placement::shard(0);
constexpr Placement kS1 = Placement::shard(1);
constexpr Placement kSum = Placement::partial();
const TensorMeta kEven{{64, 64}, {64, 1}, DType::kFloat32};
constexpr std::int64_t kWhole = 64 * 64 * 4;

using Kind = RedistributeStep::Kind;

/// With `bytes` of the collective's larger side; 0: a local step, or an all-reduce.
RedistributeStep step(Kind kind, std::uint32_t mesh_dims, Placements from, Placements to, std::int64_t bytes) {
  return {kind, mesh_dims, from, to, bytes, 0};
}

/// Of one step along tp, a mesh dim of four devices.
std::int64_t making(const TensorMeta& tensor, Kind kind, Placement from, Placement to, std::int64_t bytes,
                    bool frees_source = false) {
  return making_bytes(tensor, {step(kind, 2, shards(kR, from), shards(kR, to), bytes)}, kMesh, frees_source);
}

// What a step needs beside its input and its result: pieces that are not blocks of the first dim are copied into order.
TEST(MemoryTest, collectives_along_another_dim_than_the_first_copy) {
  EXPECT_EQ(making(kEven, Kind::kAllGather, kS0, kR, kWhole), 0);
  EXPECT_EQ(making(kEven, Kind::kAllGather, kS1, kR, kWhole), kWhole);
  EXPECT_EQ(making(kEven, Kind::kReduceScatter, kSum, kS0, kWhole), 0);
  EXPECT_EQ(making(kEven, Kind::kReduceScatter, kSum, kS1, kWhole), kWhole);
  EXPECT_EQ(making(kEven, Kind::kAllToAll, kS0, kS1, kWhole / 4), kWhole / 4);
  EXPECT_EQ(making(kEven, Kind::kAllToAll, kS1, kS0, kWhole / 4), kWhole / 4);
  EXPECT_EQ(making(kEven, Kind::kAllReduce, kSum, kR, kWhole), 0);
  EXPECT_EQ(making(kEven, Kind::kSlice, kR, kS1, 0), 0);
  EXPECT_EQ(making(kEven, Kind::kZero, kR, kSum, 0), 0);
  EXPECT_EQ(making_bytes(kEven, {}, kMesh, true), 0);
}

TEST(MemoryTest, dims_of_one_element_before_the_cut_one_need_no_copy) {
  const TensorMeta tensor{{1, 64, 64}, {64 * 64, 64, 1}, DType::kFloat32};
  EXPECT_EQ(making(tensor, Kind::kAllGather, kS1, kR, kWhole), 0);
}

// Its columns are the rows in memory.
TEST(MemoryTest, what_does_not_lie_in_rows_is_copied_for_collectives) {
  const TensorMeta turned{{64, 64}, {1, 64}, DType::kFloat32};
  EXPECT_TRUE(is_row_major(kEven));
  EXPECT_FALSE(is_row_major(turned));
  EXPECT_TRUE(is_row_major({{64, 1}, {1, 5}, DType::kFloat32}));
  EXPECT_EQ(making(turned, Kind::kAllGather, kS0, kR, kWhole), kWhole / 4);
  EXPECT_EQ(making(turned, Kind::kAllGather, kS1, kR, kWhole),
            kWhole);  // the copy is gone when pieces are put in order
  EXPECT_EQ(making(turned, Kind::kReduceScatter, kSum, kS0, kWhole), kWhole);
  EXPECT_EQ(making(turned, Kind::kAllReduce, kSum, kR, kWhole), kWhole);
}

// 62 rows by four: pieces of 16, 16, 16 and 14, which travel as 16.
TEST(MemoryTest, uneven_pieces_are_padded) {
  const TensorMeta tensor{{62, 64}, {64, 1}, DType::kFloat32};
  constexpr std::int64_t kRow = 64 * 4;
  // Beside 62 rows: a copy of the piece, and 64 rows of all.
  EXPECT_EQ(making(tensor, Kind::kAllGather, kS0, kR, 64 * kRow), (16 + 64 - 62) * kRow);
  // 64 rows with padding, and 16 of the sum.
  EXPECT_EQ(making(tensor, Kind::kReduceScatter, kSum, kS0, 64 * kRow), 64 * kRow);
}

TEST(MemoryTest, what_comes_between_two_steps_is_there_with_the_second_ones_result) {
  const Placements cut = shards(kS0, kS0);
  // 1/8 is gathered to 1/2 over tp, then to the whole over dp: beside the whole, the half.
  EXPECT_EQ(making_bytes(kEven,
                         {step(Kind::kAllGather, 2, cut, shards(kS0, kR), kWhole / 2),
                          step(Kind::kAllGather, 1, shards(kS0, kR), {}, kWhole)},
                         kMesh, false),
            kWhole / 2);
  // The whole is made first and cut then: beside the piece, the whole.
  EXPECT_EQ(making_bytes(
                kEven,
                {step(Kind::kAllGather, 1, shards(kS0, kR), {}, kWhole), step(Kind::kSlice, 2, {}, shards(kR, kS0), 0)},
                kMesh, false),
            kWhole);
}

TEST(MemoryTest, what_is_freed_is_there_while_it_is_read) {
  // The piece beside the whole; with copies, the pieces of all beside these in order, when the own piece is gone.
  EXPECT_EQ(making(kEven, Kind::kAllGather, kS0, kR, kWhole, true), kWhole / 4);
  EXPECT_EQ(making(kEven, Kind::kAllGather, kS1, kR, kWhole, true), kWhole);
  EXPECT_EQ(making(kEven, Kind::kSlice, kR, kS1, 0, true), kWhole);
  EXPECT_EQ(making(kEven, Kind::kReduceScatter, kSum, kS1, kWhole, true), kWhole + kWhole - kWhole / 4);
  // The whole that is cut is made from a half, which is gone by then.
  EXPECT_EQ(making_bytes(
                kEven,
                {step(Kind::kAllGather, 1, shards(kS0, kR), {}, kWhole), step(Kind::kSlice, 2, {}, shards(kR, kS0), 0)},
                kMesh, true),
            kWhole / 2 + kWhole - kWhole / 4);
}

}  // namespace
}  // namespace autopar::costs
