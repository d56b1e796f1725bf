#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "costs/compute.h"
#include "tests/costs/cluster_files.h"
#include "tests/costs/single_op.h"

/// The table of docs/cost-models.md: matmul rates as published against the model's.
namespace autopar::costs {
namespace {

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

double tflops(const Cluster& cluster, const Shape& shape, DType dtype = DType::kBFloat16) {
  const testing::Op op = testing::mm(shape.m, shape.k, shape.n, dtype);
  return op.flops() / static_cast<double>(op.ps(cluster));
}

/// ml-engineering's mamf-finder.py clears 256 MiB before each matmul. Between such pauses a device keeps a higher clock
/// than in training (costs/clusters).
Cluster with_pauses(const char* name, double clock) {
  Cluster cluster = testing::shipped_cluster(name);
  cluster.device.matmul_clock = clock;
  return cluster;
}

Cluster gh200() {
  Cluster cluster = with_pauses("h200", 1);  // 900 W instead of 700
  cluster.name = "gh200";
  cluster.device.memory_bandwidth = 0.9 * 4.9e12;  // its datasheet's, x 0.9 as for the others
  return cluster;
}

/// Maximum achievable matmul TFLOPS, each with the shape that reached them: stas00/ml-engineering,
/// compute/accelerator/README.md.
struct Best {
  const char* name;
  Cluster cluster;
  DType dtype;
  Shape shape;
  double tflops;
};

std::vector<Best> best_shapes() {
  const Cluster a100 = with_pauses("a100", 1);
  const Cluster h100 = with_pauses("h100", 0.94);
  const Cluster h200 = with_pauses("h200", 0.94);
  const Cluster b200 = with_pauses("b200", 0.89);
  constexpr DType kFp8 = DType::kFloat8E4M3;
  constexpr DType kBf16 = DType::kBFloat16;
  return {{"A100", a100, kBf16, {1024, 10240, 5120}, 271.2},
          {"H100", h100, kBf16, {2048, 2048, 13312}, 794.5},
          {"GH200 (900 W)", gh200(), kBf16, {1024, 15360, 4096}, 828.6},
          {"B200", b200, kBf16, {1792, 16128, 3072}, 1745.0},
          {"B300", b200, kBf16, {12288, 18432, 1024}, 1769.0},
          {"H100 fp8", h100, kFp8, {1024, 9216, 14336}, 1402.6},
          {"H200 fp8", h200, kFp8, {1280, 4096, 12032}, 1453.4},
          {"GH200 fp8", gh200(), kFp8, {1024, 14336, 14336}, 1535.0},
          {"B200 fp8", b200, kFp8, {15360, 4096, 3072}, 3432.5}};
}

void expect_within_ten_percent(const Best& row) {
  const double predicted = tflops(row.cluster, row.shape, row.dtype);
  std::printf("| %s | %lld x %lld x %lld | %.0f | %.0f | %+.0f%% |\n", row.name, static_cast<long long>(row.shape.m),
              static_cast<long long>(row.shape.n), static_cast<long long>(row.shape.k), row.tflops, predicted,
              100 * (predicted / row.tflops - 1));
  EXPECT_NEAR(predicted, row.tflops, 0.1 * row.tflops) << row.name;
}

TEST(PublishedMatmulTest, the_best_shapes_come_within_ten_percent) {
  for (const Best& row : best_shapes()) expect_within_ten_percent(row);
}

// The sources are those of the clocks in costs/clusters.
TEST(PublishedMatmulTest, large_matmuls_in_a_row_come_within_ten_percent) {
  constexpr DType kBf16 = DType::kBFloat16;
  const Cluster b200 = testing::shipped_cluster("b200");
  for (const Best& row :
       {Best{"A100", testing::shipped_cluster("a100"), kBf16, {8192, 8192, 8192}, 257},
        Best{"H100", testing::shipped_cluster("h100"), kBf16, {10240, 10240, 10240}, 720},
        Best{"B200", b200, kBf16, {4096, 4096, 4096}, 1532}, Best{"B200", b200, kBf16, {4096, 8192, 8192}, 1652},
        Best{"B200", b200, kBf16, {8192, 8192, 8192}, 1610}}) {
    expect_within_ten_percent(row);
  }
}

double best_of_large(const Cluster& cluster, DType dtype) {
  double best = 0;
  for (std::int64_t m = 1024; m <= 16384; m *= 2) {
    for (std::int64_t n = 1024; n <= 16384; n *= 2) {
      for (std::int64_t k = 1024; k <= 16384; k *= 2) best = std::max(best, tflops(cluster, {m, n, k}, dtype));
    }
  }
  return best;
}

// The published figures are the best of a wide search, so no shape is far above. 8-bit floats draw more power than the
// one clock of a device tells, hence the 15%.
TEST(PublishedMatmulTest, no_shape_is_much_faster_than_the_best) {
  for (const Best& row : best_shapes()) {
    EXPECT_LT(best_of_large(row.cluster, row.dtype), 1.15 * row.tflops) << row.name;
  }
}

TEST(PublishedMatmulTest, shapes_of_training_are_slower_and_small_ones_much_slower) {
  struct Row {
    Shape shape;
    double least;  ///< share of the best rate
    double most;
  };
  for (const char* name : {"a100", "h100", "h200", "b200"}) {
    const Cluster cluster = testing::shipped_cluster(name);
    const double best = best_of_large(cluster, DType::kBFloat16);
    for (const Row& row : {Row{{16384, 4096, 4096}, 0.85, 0.995}, Row{{8192, 1792, 4096}, 0.75, 0.93},
                           Row{{8192, 512, 4096}, 0.65, 0.92}, Row{{2048, 1792, 4096}, 0.5, 0.85},
                           Row{{512, 512, 512}, 0, 0.25}, Row{{16, 4096, 4096}, 0, 0.12}}) {
      const double predicted = tflops(cluster, row.shape);
      std::printf("| %s | %lld x %lld x %lld | %.0f | %.0f%% |\n", name, static_cast<long long>(row.shape.m),
                  static_cast<long long>(row.shape.n), static_cast<long long>(row.shape.k), predicted,
                  100 * predicted / best);
      EXPECT_GT(predicted / best, row.least);
      EXPECT_LT(predicted / best, row.most);
    }
  }
}

}  // namespace
}  // namespace autopar::costs
