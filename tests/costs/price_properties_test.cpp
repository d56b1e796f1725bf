#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "costs/collective.h"
#include "costs/redistribute.h"
#include "tests/costs/cluster_files.h"
#include "tests/costs/single_op.h"

/// What must hold of prices whatever the constants: for every cluster that comes with the program, inside nodes and
/// across them.
namespace autopar::costs {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;
constexpr Collective kCollectives[] = {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce,
                                       Collective::kAllToAll};

std::vector<std::string> cluster_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(AUTOPAR_SOURCE_DIR "/costs/clusters")) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Mesh mesh_of(std::vector<std::int64_t> shape) {
  const std::size_t rank = shape.size();
  return {std::move(shape), std::vector<std::string>(rank, "d")};
}

const std::vector<std::vector<std::int64_t>>& shapes() {
  static const std::vector<std::vector<std::int64_t>> table = {
      {2},        {4},       {8},     {32},         {1, 8},       {8, 1},       {2, 8},        {8, 2},
      {4, 8},     {32, 8},   {8, 32}, {32, 32},     {2, 2, 2},    {4, 2, 4},    {2, 8, 4},     {8, 4, 2},
      {32, 2, 8}, {8, 1, 4}, {4, 3},  {2, 2, 2, 2}, {4, 2, 2, 8}, {2, 8, 2, 4}, {32, 2, 4, 2}, {8, 8, 4, 2}};
  return table;
}

std::vector<std::int64_t> sizes() {
  std::vector<std::int64_t> bytes;
  for (std::int64_t b = 0; b < 64 * kGiB; b = b * 5 / 4 + 1) bytes.push_back(b);
  return bytes;
}

/// Members of the group of rank 0 over `dims`.
std::vector<std::int64_t> members_of(const Mesh& mesh, std::uint32_t dims) {
  std::vector<std::int64_t> members = {0};
  std::int64_t stride = 1;
  for (int dim = mesh.rank() - 1; dim >= 0; --dim) {
    const std::int64_t n = mesh.shape[static_cast<std::size_t>(dim)];
    const std::size_t old = members.size();
    for (std::int64_t k = 1; (dims >> dim & 1U) != 0 && k < n; ++k) {
      for (std::size_t i = 0; i < old; ++i) members.push_back(members[i] + k * stride);
    }
    stride *= n;
  }
  return members;
}

class PricePropertiesTest : public ::testing::TestWithParam<std::string> {
 protected:
  template <typename Check>
  void for_every_group(const Check& check) const {
    for (const std::vector<std::int64_t>& shape : shapes()) {
      const Mesh mesh = mesh_of(shape);
      const CollectiveModel model(cluster, mesh);
      for (std::uint32_t dims = 0; dims < 1U << mesh.rank(); ++dims) {
        check(mesh, model, dims);
        if (HasFatalFailure()) FAIL() << mesh.num_devices() << " devices, mesh dims " << dims;
      }
    }
  }

  Cluster cluster = testing::shipped_cluster(GetParam());
};

TEST_P(PricePropertiesTest, more_bytes_never_take_less_time) {
  for_every_group([](const Mesh&, const CollectiveModel& model, std::uint32_t dims) {
    for (Collective collective : kCollectives) {
      std::int64_t before = 0;
      for (std::int64_t bytes : sizes()) {
        const std::int64_t time = model.time_ps(collective, dims, bytes);
        ASSERT_GE(time, before) << collective_name(collective) << " " << bytes;
        before = time;
      }
    }
  });
}

TEST_P(PricePropertiesTest, a_mesh_dim_of_one_device_is_free) {
  for_every_group([](const Mesh& mesh, const CollectiveModel& model, std::uint32_t dims) {
    for (int dim = 0; dim < mesh.rank(); ++dim) {
      if (mesh.shape[static_cast<std::size_t>(dim)] > 1 || (dims >> dim & 1U) == 0) continue;
      const std::uint32_t others = dims & ~(1U << dim);
      for (Collective collective : kCollectives) {
        ASSERT_EQ(model.time_ps(collective, dims, kGiB), model.time_ps(collective, others, kGiB));
      }
    }
    for (Collective collective : kCollectives) {
      ASSERT_EQ(model.time_ps(collective, dims, kGiB) == 0, members_of(mesh, dims).size() == 1);
    }
  });
}

// An all-reduce can always be done as the other two, and a ring's is. Other ways can be faster: a switch that reduces
// sends bytes · (n+1)/n instead of 2 · (n-1)/n, at its own bandwidth; a tree has fewer steps on many nodes, which
// counts at small sizes without bound and here hardly.
TEST_P(PricePropertiesTest, an_all_reduce_is_about_a_reduce_scatter_and_an_all_gather) {
  for_every_group([](const Mesh&, const CollectiveModel& model, std::uint32_t dims) {
    for (std::int64_t bytes : sizes()) {
      const std::int64_t both =
          model.time_ps(Collective::kReduceScatter, dims, bytes) + model.time_ps(Collective::kAllGather, dims, bytes);
      const std::int64_t all_reduce = model.time_ps(Collective::kAllReduce, dims, bytes);
      ASSERT_LE(all_reduce, both + 1) << bytes;  // each price is rounded
      if (bytes >= 16 * kGiB) {
        ASSERT_GE(static_cast<double>(all_reduce), static_cast<double>(both) / 1.5) << bytes;
      }
    }
  });
}

// What a node must at least send passes its members' network ports.
TEST_P(PricePropertiesTest, a_group_that_crosses_nodes_is_bounded_by_its_nics) {
  if (cluster.links.size() < 2) GTEST_SKIP() << "has one level only";
  const std::int64_t node = cluster.links.front().group;
  for_every_group([&](const Mesh& mesh, const CollectiveModel& model, std::uint32_t dims) {
    const std::vector<std::int64_t> members = members_of(mesh, dims);
    const auto n = static_cast<double>(members.size());
    const auto inside = static_cast<double>(
        std::count_if(members.begin(), members.end(), [&](std::int64_t rank) { return rank < node; }));
    if (inside == n) return;
    const double port = cluster.links[1].bulk.bandwidth;
    for (std::int64_t bytes : {kMiB, 64 * kMiB, kGiB, 16 * kGiB}) {
      const double outside_ps = 1e12 * static_cast<double>(bytes) * (n - inside) / n / port;
      const auto price = [&](Collective c) { return static_cast<double>(model.time_ps(c, dims, bytes)); };
      ASSERT_GE(price(Collective::kAllGather), outside_ps / inside);
      ASSERT_GE(price(Collective::kReduceScatter), outside_ps / inside);
      ASSERT_GE(price(Collective::kAllReduce), 2 * outside_ps / inside);
      ASSERT_GE(price(Collective::kAllToAll), outside_ps);
    }
  });
}

// The same number of devices, farther and farther apart.
TEST_P(PricePropertiesTest, a_group_is_never_cheaper_on_more_nodes) {
  for (std::int64_t devices : {2, 4, 8, 32}) {
    for (Collective collective : kCollectives) {
      for (std::int64_t bytes : sizes()) {
        std::int64_t before = 0;
        for (std::int64_t stride : {1, 2, 4, 8, 32}) {
          const CollectiveModel model(cluster, mesh_of({devices, stride}));
          const std::int64_t time = model.time_ps(collective, 1, bytes);
          ASSERT_GE(time, before) << collective_name(collective) << " of " << bytes << " bytes, " << devices
                                  << " devices, every " << stride;
          before = time;
        }
      }
    }
  }
}

// More of the same nodes.
TEST_P(PricePropertiesTest, a_larger_group_is_never_cheaper) {
  for (std::int64_t inside : {1, 2, 8}) {
    for (Collective collective : kCollectives) {
      for (std::int64_t bytes : sizes()) {
        std::int64_t before = 0;
        for (std::int64_t nodes : {1, 2, 4, 8, 32}) {
          const CollectiveModel model(cluster, mesh_of({nodes, 8 / inside, inside}));
          const std::int64_t time = model.time_ps(collective, 0b101, bytes);
          ASSERT_GE(time, before) << collective_name(collective) << " of " << bytes << " bytes, " << nodes
                                  << " nodes of " << inside;
          before = time;
        }
      }
    }
  }
}

TEST_P(PricePropertiesTest, no_detour_between_placements_is_cheaper) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{8}, {32}, {2, 8}, {8, 4}, {1, 8}, {2, 2, 4}}) {
    const Redistributor redistributor(cluster, mesh_of(shape));
    for (const std::vector<std::int64_t>& tensor : {std::vector<std::int64_t>{64, 64}, {4096, 8192}}) {
      const RedistributeTable& table = redistributor.table({tensor, {}, DType::kBFloat16});
      const int num_states = static_cast<int>(table.states().size());
      for (int from = 0; from < num_states; ++from) {
        ASSERT_EQ(table.time_ps(from, from), 0);
        for (int by = 0; by < num_states; ++by) {
          const std::int64_t first = table.time_ps(from, by);
          if (first == RedistributeTable::kUnreachable) continue;
          for (int to = 0; to < num_states; ++to) {
            ASSERT_LE(table.time_ps(from, to), first + table.time_ps(by, to));
          }
        }
      }
    }
  }
}

// Cutting a matmul along any of its dims, as tensor parallelism does, gives pieces that take no longer than the whole.
TEST_P(PricePropertiesTest, a_piece_of_a_matmul_never_takes_longer_than_the_whole) {
  const auto ps = [&](std::int64_t m, std::int64_t n, std::int64_t k) { return testing::mm(m, k, n).ps(cluster); };
  for (std::int64_t m : {1, 48, 1000, 1024, 8192, 16384}) {
    for (std::int64_t n : {16, 130, 1792, 4096, 14336}) {
      for (std::int64_t k : {64, 500, 4096, 14336}) {
        const std::int64_t whole = ps(m, n, k);
        const double peak = cluster.device.matmul_flops.at(DType::kBFloat16);
        ASSERT_GE(static_cast<double>(whole) * 1e-12, testing::mm(m, k, n).flops() / peak);
        for (std::int64_t pieces : {2, 3, 4, 8, 32}) {
          const auto cut = [pieces](std::int64_t size) { return (size + pieces - 1) / pieces; };
          ASSERT_LE(ps(cut(m), n, k), whole) << m << " " << n << " " << k << " in " << pieces;
          ASSERT_LE(ps(m, cut(n), k), whole) << m << " " << n << " " << k << " in " << pieces;
          ASSERT_LE(ps(m, n, cut(k)), whole) << m << " " << n << " " << k << " in " << pieces;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Clusters, PricePropertiesTest, ::testing::ValuesIn(cluster_names()),
                         [](const auto& description) {
                           std::string name = description.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace autopar::costs
