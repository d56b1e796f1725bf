#include "costs/meshes.h"

#include <gmock/gmock.h>

namespace autopar::costs {
namespace {

using Shape = std::vector<std::int64_t>;

/// Nodes of `node` devices.
std::vector<Shape> shapes(std::int64_t num_devices, int max_dims, std::int64_t node) {
  Cluster cluster;
  cluster.links = {{"inside", node, {}, {}, 0, 0}, {"outside", 0, {}, {}, 0, 0}};
  std::vector<Shape> found;
  for (const Mesh& mesh : meshes_of(num_devices, max_dims, cluster)) found.push_back(mesh.shape);
  return found;
}

TEST(MeshesTest, all_ordered_factorisations_of_a_power_of_two_fit) {
  EXPECT_THAT(shapes(16, 2, 8), ::testing::ElementsAre(Shape{16}, Shape{8, 2}, Shape{4, 4}, Shape{2, 8}));
  EXPECT_THAT(shapes(8, 6, 8), ::testing::ElementsAre(Shape{8}, Shape{4, 2}, Shape{2, 4}, Shape{2, 2, 2}));
  // Of 2^7 into k ordered dims there are C(6, k-1).
  EXPECT_EQ(shapes(128, 3, 8).size(), 1U + 6U + 15U);
  EXPECT_EQ(shapes(128, 6, 8).size(), 1U + 6U + 15U + 20U + 15U + 6U);
}

TEST(MeshesTest, inner_dims_fill_nodes_or_shares_of_them) {
  // 3, 6 and 12 devices inside one index would lie across nodes of 8.
  EXPECT_THAT(shapes(24, 2, 8), ::testing::ElementsAre(Shape{24}, Shape{12, 2}, Shape{6, 4}, Shape{3, 8}));
  EXPECT_THAT(shapes(24, 2, 12), ::testing::Contains(Shape({8, 3})));
}

TEST(MeshesTest, some_numbers_of_devices_have_but_one_mesh) {
  EXPECT_THAT(shapes(1, 3, 8), ::testing::ElementsAre(Shape{1}));
  EXPECT_THAT(shapes(7, 3, 8), ::testing::ElementsAre(Shape{7}));
}

}  // namespace
}  // namespace autopar::costs
