#include "costs/collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "tests/costs/cluster_files.h"

namespace autopar::costs {
namespace {

using testing::shipped_cluster;

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;

Mesh mesh_of(std::vector<std::int64_t> shape) { return {shape, std::vector<std::string>(shape.size(), "d")}; }

CollectiveModel model_of(const std::string& cluster, std::vector<std::int64_t> shape) {
  return CollectiveModel(shipped_cluster(cluster), mesh_of(std::move(shape)));
}

double seconds(const CollectiveModel& model, Collective collective, std::uint32_t mesh_dims, std::int64_t bytes) {
  return static_cast<double>(model.time_ps(collective, mesh_dims, bytes)) * 1e-12;
}

/// nccl-tests' bus bandwidth in GB/s: bytes · (n-1)/n over time, twice that for an all-reduce.
double bus_bandwidth(const CollectiveModel& model, Collective collective, std::uint32_t mesh_dims, double n,
                     std::int64_t bytes) {
  const double factor = (collective == Collective::kAllReduce ? 2 : 1) * (n - 1) / n;
  return factor * static_cast<double>(bytes) / seconds(model, collective, mesh_dims, bytes) * 1e-9;
}

struct Published {
  const char* cluster;
  std::vector<std::int64_t> mesh;
  Collective collective;
  std::int64_t bytes;
  double bus_gb_s;
  /// Predicted over published, at most and (inverted) at least. 1.35 where the model is meant to hold.
  double tolerance = 1.35;
};

void PrintTo(const Published& p, std::ostream* os) {
  *os << collective_name(p.collective) << " on " << p.cluster << ", " << p.bytes / kMiB << " MiB";
}

class PublishedTest : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedTest, bus_bandwidth) {
  const Published& p = GetParam();
  const CollectiveModel model = model_of(p.cluster, p.mesh);
  const auto all = static_cast<std::uint32_t>((1U << p.mesh.size()) - 1);
  const double n = static_cast<double>(mesh_of(p.mesh).num_devices());
  const double predicted = bus_bandwidth(model, p.collective, all, n, p.bytes);
  const double ratio = predicted / p.bus_gb_s;
  std::printf("%-14s %-5s %4.0f ranks %6lld MiB: published %6.1f, predicted %6.1f, ratio %.2f\n",
              std::string(collective_name(p.collective)).c_str(), p.cluster, n, static_cast<long long>(p.bytes / kMiB),
              p.bus_gb_s, predicted, ratio);
  EXPECT_LT(ratio, p.tolerance);
  EXPECT_GT(ratio, 1 / p.tolerance);
}

constexpr Collective kReduce = Collective::kAllReduce;

// stas00/ml-engineering, nccl-tests at 16 and 8 GiB: the ring's collectives, and the multicast's by number of GPUs.
// tests/costs/published_collectives_test.cpp has its table of all-reduces.
INSTANTIATE_TEST_SUITE_P(ml_engineering, PublishedTest,
                         ::testing::Values(Published{"h200", {8}, Collective::kAllGather, 16 * kGiB, 361.4, 1.05},
                                           Published{"h200", {8}, Collective::kReduceScatter, 16 * kGiB, 362.9, 1.05},
                                           Published{"h200", {4}, kReduce, 8 * kGiB, 363.3, 1.1},
                                           Published{"h200", {6}, kReduce, 8 * kGiB, 435.6, 1.05},
                                           Published{"h200", {8}, kReduce, 8 * kGiB, 473.1, 1.05},
                                           Published{"b200", {4}, kReduce, 8 * kGiB, 673.2, 1.05},
                                           Published{"b200", {6}, kReduce, 8 * kGiB, 778.2, 1.05},
                                           Published{"b200", {8}, kReduce, 8 * kGiB, 838.0, 1.05}));

// Runs without the host's overhead, H200 by nccl-tests: taken from network/benchmarks/README.md of the same source,
// whose version of August 2026 does not have them. The tuner of four nodes of B200 (AWS's own) takes rings where the
// model, as NCCL would, takes trees.
INSTANTIATE_TEST_SUITE_P(ml_engineering_device_time, PublishedTest,
                         ::testing::Values(Published{"h200", {8}, kReduce, kMiB, 72.45, 1.25},
                                           Published{"h200", {8}, kReduce, 16 * kMiB, 242.45, 1.25},
                                           Published{"h200", {8}, kReduce, 64 * kMiB, 369.82, 1.1},
                                           Published{"h200", {8}, kReduce, kGiB, 464.0, 1.1},
                                           Published{"b200", {4, 8}, kReduce, kMiB, 12.47, 1.25},
                                           Published{"b200", {4, 8}, kReduce, 16 * kMiB, 71.8, 1.7},
                                           Published{"b200", {4, 8}, kReduce, 64 * kMiB, 197.77, 1.1},
                                           Published{"b200", {4, 8}, kReduce, kGiB, 365.99, 1.1}));

// NVIDIA/nccl-tests #290 and #283.
INSTANTIATE_TEST_SUITE_P(nccl_tests, PublishedTest,
                         ::testing::Values(Published{"h100", {8}, kReduce, 16 * kGiB, 476},
                                           Published{"h200", {248, 8}, kReduce, 512 * kMiB, 350}));

TEST(CollectiveTest, meets_the_tuning_log_of_nccl) {
  // NCCL 2.27.5, all-gather, Simple: latency, then GB/s of the gathered bytes.
  struct Row {
    std::vector<std::int64_t> mesh;
    std::uint32_t dims;
    double us;
    double gb_s;
  };
  for (const Row& row : {Row{{2, 8}, 3, 70, 409.6}, Row{{8, 8}, 3, 297, 390}, Row{{8, 8}, 1, 106, 54.9}}) {
    const CollectiveModel model = model_of("h100", row.mesh);
    // Large messages, which go by Simple, give its line.
    const double whole = seconds(model, Collective::kAllGather, row.dims, 100 * kGiB);
    const double slope = 2 * (whole - seconds(model, Collective::kAllGather, row.dims, 50 * kGiB));
    const double latency = whole - slope;
    EXPECT_NEAR(latency * 1e6, row.us, 0.02 * row.us);
    // NCCL takes the network for the bottleneck of whole nodes; by what H200 measures, NVLink's rings are, by 5%.
    EXPECT_NEAR(100e-9 * static_cast<double>(kGiB) / slope, row.gb_s, 0.06 * row.gb_s);
  }
}

// AutoParallel's fits on 8 H100: bytes at which neither its latency nor its bandwidth decides alone.
TEST(CollectiveTest, near_the_fits_of_autoparallel) {
  struct Fit {
    Collective collective;
    std::int64_t n;
    double gb_s;
    double us;
  };
  for (const Fit& fit : {Fit{Collective::kAllGather, 2, 537, 8}, Fit{Collective::kAllGather, 4, 434, 17},
                         Fit{Collective::kAllGather, 8, 394, 30}, Fit{kReduce, 2, 324, 10}, Fit{kReduce, 4, 236, 15},
                         Fit{kReduce, 8, 267, 31}, Fit{Collective::kAllToAll, 8, 380, 50}}) {
    const CollectiveModel model = model_of("h100", {fit.n});
    for (std::int64_t bytes : {4 * kMiB, 64 * kMiB, kGiB}) {
      const double published = fit.us * 1e-6 + static_cast<double>(bytes) / fit.gb_s * 1e-9;
      const double ratio = seconds(model, fit.collective, 1, bytes) / published;
      std::printf("%-14s h100 %lld ranks %5lld MiB: fit %8.1f us, time ratio %.2f\n",
                  std::string(collective_name(fit.collective)).c_str(), static_cast<long long>(fit.n),
                  static_cast<long long>(bytes / kMiB), published * 1e6, ratio);
      EXPECT_LT(ratio, 1.45);
      EXPECT_GT(ratio, 0.65);
    }
  }
}

TEST(CollectiveTest, a_thousand_pieces_take_about_three_times_as_long_as_one) {
  const CollectiveModel model = model_of("a100", {8});
  const double one = seconds(model, kReduce, 1, 4'000'000'000);
  const double pieces = 1000 * seconds(model, kReduce, 1, 4'000'000);
  EXPECT_GT(pieces / one, 2);
  EXPECT_LT(pieces / one, 4);
}

TEST(CollectiveTest, monotone_in_bytes) {
  for (const char* cluster : {"h100", "a100", "b200", "cpu-gloo"}) {
    const CollectiveModel model = model_of(cluster, {8, 4, 2});
    for (std::uint32_t dims = 0; dims < 8; ++dims) {
      for (Collective collective :
           {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce, Collective::kAllToAll}) {
        std::int64_t before = 0;
        for (std::int64_t bytes = 0; bytes < 64 * kGiB; bytes = bytes * 5 / 4 + 1) {
          const std::int64_t time = model.time_ps(collective, dims, bytes);
          ASSERT_GE(time, before) << collective_name(collective) << " " << bytes;
          before = time;
        }
      }
    }
  }
}

TEST(CollectiveTest, a_group_of_one_device_is_free) {
  const CollectiveModel model = model_of("h100", {8, 1});
  EXPECT_EQ(model.time_ps(kReduce, 0, kGiB), 0);
  EXPECT_EQ(model.time_ps(kReduce, 2, kGiB), 0);
  EXPECT_EQ(model.time_ps(kReduce, 1, kGiB), model.time_ps(kReduce, 3, kGiB));
}

// ap#527: two nodes with one rank each were priced at NVLink speed.
TEST(CollectiveTest, one_rank_per_node_is_bounded_by_its_network_port) {
  const CollectiveModel model = model_of("h100", {2, 8});
  EXPECT_LT(bus_bandwidth(model, kReduce, 1, 2, kGiB), 50);
  EXPECT_LT(bus_bandwidth(model, Collective::kAllToAll, 1, 2, kGiB), 50);
  EXPECT_GT(bus_bandwidth(model, kReduce, 2, 8, kGiB), 400);
}

// ap#457: the ratio of reduce-scatter to all-reduce of 4 MB over the outer dim of 8 x 8 came out as 4.16, for 0.52.
TEST(CollectiveTest, a_reduce_scatter_is_about_half_an_all_reduce) {
  const CollectiveModel model = model_of("h100", {8, 8});
  const double ratio = seconds(model, Collective::kReduceScatter, 1, 4'000'000) / seconds(model, kReduce, 1, 4'000'000);
  EXPECT_GT(ratio, 0.4);
  EXPECT_LT(ratio, 0.7);
}

// Ports of the ranks in a node add up, so a larger share of the node is faster.
TEST(CollectiveTest, more_ranks_per_node_have_more_network_ports) {
  const CollectiveModel model = model_of("h100", {4, 2, 4});
  EXPECT_GT(bus_bandwidth(model, Collective::kAllGather, 3, 8, kGiB),
            1.8 * bus_bandwidth(model, Collective::kAllGather, 1, 4, kGiB));
}

// Rings of 8 on nodes of 8 that a mesh dim of 3 moves across the border of two nodes.
TEST(CollectiveTest, a_mesh_that_does_not_fit_the_nodes_takes_the_worst_group) {
  const CollectiveModel model = model_of("h100", {4, 3});
  EXPECT_LT(bus_bandwidth(model, Collective::kAllGather, 2, 3, kGiB), 50);
}

}  // namespace
}  // namespace autopar::costs
