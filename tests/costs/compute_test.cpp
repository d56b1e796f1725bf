#include "costs/compute.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "tests/costs/cluster_files.h"
#include "tests/costs/single_op.h"

namespace autopar::costs {
namespace {

using testing::mm;
using testing::Op;
using testing::shipped_cluster;
using testing::tensor;

TEST(ComputeTest, matmul_flops) {
  EXPECT_DOUBLE_EQ(mm(8192, 4096, 2048).flops(), 2.0 * 8192 * 4096 * 2048);
  EXPECT_GT(mm(8192, 8192, 8192, DType::kFloat32).us(), 10 * mm(8192, 8192, 8192).us());
}

TEST(ComputeTest, shards_divide_the_work) {
  Op rows = mm(8192, 4096, 4096);
  const double whole = rows.flops();
  const double whole_us = rows.us();
  rows.input(0, Placement::shard(0)).output(0, Placement::shard(0));
  EXPECT_DOUBLE_EQ(rows.flops(), whole / 8);
  EXPECT_LT(rows.us(), whole_us / 6);
  EXPECT_GE(rows.us(), whole_us / 8);
  Op inner = mm(8192, 4096, 4096);
  inner.input(0, Placement::shard(1)).input(1, Placement::shard(0)).output(0, Placement::partial());
  EXPECT_DOUBLE_EQ(inner.flops(), whole / 8);
}

// Pieces below a tile cost as much as a tile: cutting further gains nothing.
TEST(ComputeTest, narrow_pieces_gain_nothing) {
  const double tile = mm(64, 16384, 8192).us();
  EXPECT_NEAR(mm(16, 16384, 8192).us(), tile, 0.05 * tile);
  EXPECT_DOUBLE_EQ(mm(1025, 8192, 8192).us(), mm(1152, 8192, 8192).us());
}

TEST(ComputeTest, pointwise_work_is_bound_by_memory) {
  const Op add("aten.add.Tensor", {tensor({4096, 8192}), tensor({4096, 8192})}, {tensor({4096, 8192})});
  EXPECT_NEAR(add.us(), 3.0 * 4096 * 8192 * 2 / 3.0e12 * 1e6 + 2, 1e-3);
  EXPECT_DOUBLE_EQ(add.flops(), 3.0 * 4096 * 8192);
}

TEST(ComputeTest, views_are_free_and_creation_only_writes) {
  EXPECT_EQ(Op("aten.view.default", {tensor({64, 64})}, {tensor({4096})}).us(), 0);
  EXPECT_EQ(Op("aten._unsafe_view.default", {tensor({64, 64})}, {tensor({4096})}).us(), 0);
  EXPECT_EQ(Op("placeholder", {}, {tensor({64, 64})}).us(), 0);
  EXPECT_EQ(Op("autopar.constrain.default", {tensor({64, 64})}, {tensor({64, 64})}).us(), 0);
  const Op copy("aten.clone.default", {tensor({1 << 14, 1 << 14})}, {tensor({1 << 14, 1 << 14})});
  const Op zeros("aten.zeros_like.default", {tensor({1 << 14, 1 << 14})}, {tensor({1 << 14, 1 << 14})});
  EXPECT_NEAR(copy.us() - 2, 2 * (zeros.us() - 2), 1e-3);
}

// Adam in mixed precision: gradient 2 and parameter 2 bytes, momentum, variance and master copy 12 read and written.
TEST(ComputeTest, an_optimizer_reads_and_writes_its_state_once) {
  const Cluster cluster = shipped_cluster("h100");
  const Mesh mesh{{8}, {"d"}};
  Placements whole;
  Placements cut;
  cut[0] = Placement::shard(0);
  const auto ps = [&](DType dtype, const Placements& placements) {
    return static_cast<double>(optimizer_ps(tensor({4096, 4096}, dtype), placements, mesh, {}, cluster.device));
  };
  EXPECT_NEAR(ps(DType::kBFloat16, whole), 28.0 * 4096 * 4096 / 3e12 * 1e12, 1);
  EXPECT_NEAR(ps(DType::kBFloat16, cut), 28.0 * 4096 * 512 / 3e12 * 1e12, 1);
  EXPECT_NEAR(ps(DType::kFloat32, whole), 28.0 * 4096 * 4096 / 3e12 * 1e12, 1);
}

TEST(ComputeTest, an_embedding_reads_only_its_rows) {
  const auto look_up = [](std::int64_t vocabulary) {
    return Op("aten.embedding.default", {tensor({vocabulary, 4096}), tensor({8192}, DType::kInt64)},
              {tensor({8192, 4096})})
        .us();
  };
  EXPECT_DOUBLE_EQ(look_up(1000), look_up(1000000));
}

// 4·B·H·Sq·Sk·D, half of it under a causal mask, 2.5 times as much backward (Dao 2023).
TEST(ComputeTest, attention_flops) {
  const TensorMeta q = tensor({4, 32, 2048, 128});
  const TensorMeta kv = tensor({4, 8, 2048, 128});
  const TensorMeta lse = tensor({4, 32, 2048}, DType::kFloat32);
  const double full = 4.0 * 4 * 32 * 2048 * 2048 * 128;
  const auto forward = [&](bool causal) {
    Op op("aten._scaled_dot_product_flash_attention.default", {q, kv, kv}, {q, lse});
    return op.arg(0.0).arg(causal);
  };
  EXPECT_DOUBLE_EQ(forward(false).flops(), full);
  EXPECT_DOUBLE_EQ(forward(true).flops(), full / 2);
  EXPECT_DOUBLE_EQ(
      forward(true).input(0, Placement::shard(1)).input(1, Placement::shard(1)).input(2, Placement::shard(1)).flops(),
      full / 16);
  Op backward("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", {q, q, kv, kv, q, lse}, {q, kv, kv});
  backward.arg(0.0).arg(true);
  EXPECT_DOUBLE_EQ(backward.flops(), 2.5 * full / 2);
}

TEST(ComputeTest, grouped_products_count_tokens_once) {
  const TensorMeta offsets = tensor({8}, DType::kInt32);
  const Op forward("aten._grouped_mm.default", {tensor({4096, 256}), tensor({8, 256, 512}), offsets},
                   {tensor({4096, 512})});
  EXPECT_DOUBLE_EQ(forward.flops(), 2.0 * 4096 * 256 * 512);
  const Op weight_gradient("aten._grouped_mm.default", {tensor({256, 4096}), tensor({4096, 512}), offsets},
                           {tensor({8, 256, 512})});
  EXPECT_DOUBLE_EQ(weight_gradient.flops(), 2.0 * 4096 * 256 * 512);
}

TEST(ComputeTest, batched_and_biased_products) {
  const Op bmm("aten.bmm.default", {tensor({16, 128, 64}), tensor({16, 64, 256})}, {tensor({16, 128, 256})});
  EXPECT_DOUBLE_EQ(bmm.flops(), 2.0 * 16 * 128 * 64 * 256);
  const Op addmm("aten.addmm.default", {tensor({256}), tensor({128, 64}), tensor({64, 256})}, {tensor({128, 256})});
  EXPECT_DOUBLE_EQ(addmm.flops(), 2.0 * 128 * 64 * 256);
}

TEST(ComputeTest, convolutions) {
  const std::vector<TensorMeta> inputs = {tensor({4, 3, 224, 224}), tensor({768, 3, 16, 16}), tensor({768})};
  Op patches("aten.convolution.default", inputs, {tensor({4, 768, 14, 14})});
  EXPECT_DOUBLE_EQ(patches.flops(), 2.0 * 4 * 768 * 14 * 14 * 3 * 16 * 16);
  Op backward("aten.convolution_backward.default", {tensor({4, 768, 14, 14}), inputs[0], inputs[1]},
              {inputs[0], inputs[1], inputs[2]});
  EXPECT_DOUBLE_EQ(backward.flops(), 2 * patches.flops());
}

// Any cut of a tensor, and a pending sum, cuts the work; what stays whole is done by all.
TEST(ComputeTest, given_flops_are_shared_out_and_without_them_bytes_count) {
  const auto own = [] { return Op("own.op.default", {tensor({64, 64}), tensor({64, 64})}, {tensor({64, 64})}); };
  constexpr std::int64_t kFlops = 8'000'000'000'000;
  EXPECT_DOUBLE_EQ(own().given_flops(kFlops).flops(), 8e12);
  EXPECT_DOUBLE_EQ(own().given_flops(kFlops).input(1, Placement::shard(0)).flops(), 1e12);
  EXPECT_DOUBLE_EQ(own().given_flops(kFlops).output(0, Placement::partial()).flops(), 1e12);
  EXPECT_NEAR(own().given_flops(kFlops).us(), 8e12 / 795e12 * 1e6, 0.1 * 8e12 / 795e12 * 1e6);
  const double bytes_us = 3.0 * 64 * 64 * 2 / 3.0e12 * 1e6 + 2;
  EXPECT_NEAR(own().us(), bytes_us, 1e-3);
  EXPECT_NEAR(own().given_flops(0).us(), bytes_us, 1e-3);
}

TEST(ComputeTest, a_hundred_thousand_prices_are_quick) {
  const Cluster cluster = shipped_cluster("h100");
  const Op op = mm(8192, 4096, 4096);
  const std::clock_t start = std::clock();  // of this process, however busy the machine is
  for (int i = 0; i < 100000; ++i) op.ps(cluster);
  const double ms = 1000 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("100000 prices: %.0f ms\n", ms);
  EXPECT_LT(ms, 2000);
}

}  // namespace
}  // namespace autopar::costs
