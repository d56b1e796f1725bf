#include "io/read_cluster.h"

#include <gmock/gmock.h>

#include "tests/io/scratch.h"

namespace autopar::io {
namespace {

using ::testing::HasSubstr;
using testing::input_error;
using testing::Scratch;
using testing::slurp;

std::string shared_text() { return slurp(AUTOPAR_SOURCE_DIR "/tests/io/cluster.json"); }

TEST(ReadClusterTest, every_field_reaches_its_place) {
  const costs::Cluster cluster = read_cluster(AUTOPAR_SOURCE_DIR "/tests/io/cluster.json", "--cluster").cluster;
  EXPECT_EQ(cluster.name, "two_levels");
  EXPECT_EQ(cluster.device.name, "test device");
  EXPECT_EQ(cluster.device.memory_bytes, 1000000000);
  EXPECT_EQ(cluster.device.multiprocessors, 10);
  EXPECT_EQ(cluster.device.accumulators, 2);
  EXPECT_EQ(cluster.device.matmul_flops.at(costs::DType::kBFloat16), 1e14);
  EXPECT_EQ(cluster.device.matmul_flops.at(costs::DType::kFloat32), 5e13);
  EXPECT_EQ(cluster.device.matmul_clock, 0.75);
  EXPECT_EQ(cluster.device.vector_flops, 1e13);
  EXPECT_EQ(cluster.device.memory_bandwidth, 1e12);
  EXPECT_EQ(cluster.device.launch_s, 2e-6);
  ASSERT_EQ(cluster.links.size(), 2U);
  EXPECT_EQ(cluster.links[0].name, "inner");
  EXPECT_EQ(cluster.links[0].group, 4);
  EXPECT_EQ(cluster.links[0].bulk.bandwidth, 1e11);
  EXPECT_EQ(cluster.links[0].bulk.base_latency_s, 1e-5);
  EXPECT_EQ(cluster.links[0].bulk.hop_latency_s, 1e-6);
  EXPECT_EQ(cluster.links[0].low_latency.bandwidth, 3e10);
  EXPECT_EQ(cluster.links[0].low_latency.base_latency_s, 4e-6);
  EXPECT_EQ(cluster.links[0].low_latency.hop_latency_s, 2e-7);
  EXPECT_EQ(cluster.links[0].multicast_bandwidth, 9e10);
  EXPECT_EQ(cluster.links[0].multicast_latency_s, 2e-5);
  EXPECT_EQ(cluster.links[1].group, 0);
  EXPECT_EQ(cluster.links[1].low_latency.bandwidth, 0);
  EXPECT_EQ(cluster.links[1].multicast_bandwidth, 0);
}

TEST(ReadClusterTest, an_unknown_name_lists_the_known_ones) {
  EXPECT_THAT(input_error([] { read_cluster("cray1", "--cluster"); }),
              ::testing::AllOf(HasSubstr("--cluster: unknown cluster \"cray1\"; known are "), HasSubstr("h100")));
  EXPECT_THAT(input_error([] { read_cluster("../clusters/h100", "--cluster"); }), HasSubstr("unknown cluster"));
  EXPECT_THAT(input_error([] { read_cluster("none.json", "--cluster"); }), HasSubstr("none.json: cannot open"));
}

TEST(ReadClusterTest, the_descriptions_that_come_with_the_program_can_be_read) {
  int num_read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(AUTOPAR_SOURCE_DIR "/costs/clusters")) {
    const std::string name = entry.path().stem().string();
    EXPECT_EQ(read_cluster(name, "test").cluster.name, name);
    ++num_read;
  }
  EXPECT_GT(num_read, 0);
}

struct Fault {
  std::string from;
  std::string to;
  std::string message;
};

class ClusterFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(ClusterFaultTest, is_refused_with_its_place) {
  const Scratch scratch;
  std::string text = shared_text();
  const std::size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, GetParam().from.size(), GetParam().to);
  const std::string path = scratch.put("c.json", text);
  EXPECT_THAT(input_error([&] { read_cluster(path, "--cluster"); }), HasSubstr(path + ": " + GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Table, ClusterFaultTest,
    ::testing::Values(
        Fault{"\"autopar-cluster\"", "\"cluster\"", "format: expected \"autopar-cluster\""},
        Fault{"\"version\": 1", "\"version\": 3", "version: this program reads version 1, found 3"},
        Fault{"\"value\": 1e11", "\"value\": 0", "links[0].bandwidth.value: expected 1 to 1e+18, found 0"},
        Fault{"\"value\": 1e11", "\"value\": \"fast\"", "links[0].bandwidth.value: expected a number, found a string"},
        Fault{"\"value\": 1e-6", "\"value\": -1e-6", "links[0].hop_latency.value: expected 0 to 1000, found -1e-06"},
        Fault{"\"value\": 1000000000", "\"value\": 1e9",
              "device.memory.value: expected an integer, found a number with a fraction"},
        Fault{"\"unit\": \"B\"", "\"unit\": \"GB\"", "device.memory.unit: expected \"B\", found \"GB\""},
        Fault{", \"source\": \"test\"", "", "device.memory: key \"source\" is missing"},
        Fault{"\"bfloat16\"", "\"bf16\"", "device.matmul_flops.bf16: unknown dtype \"bf16\""},
        Fault{"\"value\": 0.75", "\"value\": 1.75", "device.matmul_clock.value: expected 0.01 to 1, found 1.75"},
        Fault{"\"group\": 4", "\"group\": 1", "links[0].group: expected a larger multiple of 1, found 1"},
        Fault{"\"group\": 4", "\"group\": 0", "links[0].group: the last link, and only it, has group 0"},
        Fault{"\"group\": 0", "\"group\": 8", "links[1].group: the last link, and only it, has group 0"},
        Fault{"\"value\": 3e10", "\"value\": 0", "links[0].low_latency.bandwidth.value: expected 1 to 1e+18, found 0"},
        Fault{"\"multicast_latency\"", "\"broadcast_latency\"", "links[0]: unknown key \"broadcast_latency\""}));

}  // namespace
}  // namespace autopar::io
