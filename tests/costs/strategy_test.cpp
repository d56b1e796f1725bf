#include "costs/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "costs/graph.h"

namespace autopar::costs {
namespace {

using ::testing::ElementsAre;

/// The output placements of all combinations of `list` for a tensor of `shape` that passes through one node.
std::vector<std::string> combined(const std::vector<OneDimStrategy>& list, std::vector<std::int64_t> shape,
                                  const Mesh& mesh) {
  Node node;
  node.outputs.emplace_back(TensorMeta{std::move(shape), {}, DType::kFloat32});
  std::vector<std::string> texts;
  for (const Strategy& strategy : combine({}, node, list, mesh)) {
    texts.push_back(to_string(strategy.outputs[0], mesh.rank()));
  }
  return texts;
}

OneDimStrategy on(std::vector<std::string> mesh_dims, Split output) { return {{}, {output}, {}, std::move(mesh_dims)}; }

TEST(CombineTest, a_strategy_is_chosen_along_its_mesh_dims_only) {
  const std::vector<OneDimStrategy> list = {on({}, Split::replicate()), on({"ep", "pp"}, Split::shard(0)),
                                            on({"dp"}, Split::shard(1))};
  EXPECT_THAT(combined(list, {8, 8}, {{2, 2}, {"dp", "ep"}}), ElementsAre("R,R", "R,S(0)", "S(1),R", "S(1),S(0)"));
  EXPECT_THAT(combined(list, {8, 8}, {{2, 2}, {"dim0", "dim1"}}), ElementsAre("R,R"));
}

TEST(CombineTest, nothing_is_possible_where_a_mesh_dim_has_no_strategy) {
  const std::vector<OneDimStrategy> list = {on({"ep"}, Split::shard(0))};
  EXPECT_THAT(combined(list, {8}, {{2, 2}, {"dp", "ep"}}), ElementsAre());
  EXPECT_THAT(combined(list, {8}, {{1, 2}, {"dp", "ep"}}), ElementsAre("R,S(0)"));
}

// Even the empty tensor, which no shard fits.
TEST(CombineTest, mesh_dims_of_one_device_are_replicated_whatever_is_listed_first) {
  EXPECT_THAT(combined({on({}, Split::shard(0))}, {8}, {{1}, {"dp"}}), ElementsAre("R"));
  EXPECT_THAT(combined({on({}, Split::shard(0))}, {0}, {{1}, {"dp"}}), ElementsAre("R"));
  EXPECT_THAT(combined({on({}, Split::partial())}, {8}, {{1, 2}, {"dp", "ep"}}), ElementsAre("R,P(sum)"));
}

}  // namespace
}  // namespace autopar::costs
