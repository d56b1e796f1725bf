#include "costs/local_program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/costs/cluster_files.h"

namespace autopar::costs {
namespace {

using testing::shipped_cluster;

/// A log-softmax of [batch, classes] on a mesh of 4 x 8: rows on the outer dim, classes on the inner one.
class LocalProgramTest : public ::testing::Test {
 protected:
  LocalProgramTest() {
    Node placeholder;
    placeholder.op = "placeholder";
    placeholder.outputs.emplace_back(TensorMeta{{4096, 128256}, {128256, 1}, DType::kBFloat16});
    graph_.nodes.push_back(placeholder);
    node_.inputs = {ValueRef{0, 0}};
    strategy_.inputs.resize(1);
    strategy_.inputs[0][0] = Placement::shard(0);
    strategy_.inputs[0][1] = Placement::shard(1);
  }

  std::vector<ProgramAllReduce> all_reduces() const {
    return program_all_reduces(graph_, node_, strategy_, mesh_, cluster_.device, collectives_);
  }
  std::int64_t time_ps() const { return total_ps(all_reduces()); }
  std::int64_t all_reduce_ps(std::uint32_t mesh_dims, std::int64_t bytes) const {
    return collectives_.time_ps(Collective::kAllReduce, mesh_dims, bytes) +
           std::llround(cluster_.device.launch_s * 1e12);
  }

  Cluster cluster_ = shipped_cluster("h100");
  Mesh mesh_{{4, 8}, {"dp", "tp"}};
  CollectiveModel collectives_{cluster_, mesh_};
  Graph graph_;
  Node node_;
  Strategy strategy_;
};

TEST_F(LocalProgramTest, plain_ops_do_not_communicate) { EXPECT_EQ(time_ps(), 0); }

TEST_F(LocalProgramTest, a_number_per_local_row_is_reduced_along_its_own_mesh_dim) {
  strategy_.programs[1] = {"log_softmax_sharded", 2, 0, 1};
  EXPECT_EQ(time_ps(), 2 * all_reduce_ps(0b10, 4096 / 4 * 4));
}

TEST_F(LocalProgramTest, a_scalar_is_four_bytes) {
  strategy_.programs[0] = {"nll_loss_mean", 1};
  EXPECT_EQ(time_ps(), all_reduce_ps(0b01, 4));
}

TEST_F(LocalProgramTest, programs_along_several_mesh_dims_add_up) {
  strategy_.programs[0] = {"nll_loss_mean", 1};
  strategy_.programs[1] = {"nll_loss_mean", 1};
  EXPECT_EQ(time_ps(), all_reduce_ps(0b01, 4) + all_reduce_ps(0b10, 4));
}

TEST_F(LocalProgramTest, tensor_by_tensor_each_along_one_mesh_dim_after_the_other) {
  strategy_.inputs[0][0] = Placement::shard(1);
  strategy_.programs[0] = strategy_.programs[1] = {"log_softmax_sharded", 2, 0, 1};
  std::vector<int> mesh_dims;
  for (const ProgramAllReduce& one : all_reduces()) {
    EXPECT_EQ(one.dtype, DType::kFloat32);
    EXPECT_EQ(one.bytes, 4096 * 4);
    EXPECT_EQ(one.time_ps, all_reduce_ps(1U << one.mesh_dim, one.bytes));
    mesh_dims.push_back(one.mesh_dim);
  }
  EXPECT_EQ(mesh_dims, (std::vector<int>{0, 1, 0, 1}));
}

TEST_F(LocalProgramTest, only_wider_dtypes_keep_their_own) {
  strategy_.programs[0] = {"nll_loss_mean", 1};
  strategy_.programs[1] = {"log_softmax_sharded", 2, 0, 1};
  graph_.nodes[0].outputs[0]->dtype = DType::kFloat64;
  for (const ProgramAllReduce& one : all_reduces()) {
    EXPECT_EQ(one.dtype, DType::kFloat64);
    EXPECT_EQ(one.bytes, one.mesh_dim == 0 ? 8 : 4096 / 4 * 8);
  }
  EXPECT_EQ(time_ps(), all_reduce_ps(0b01, 8) + 2 * all_reduce_ps(0b10, 4096 / 4 * 8));
}

/// A node of which all tensors are cut by their first dim along the outer mesh dim; the program runs along the inner
/// one.
struct Workspace {
  std::vector<TensorMeta> inputs;
  TensorMeta output;
  std::string op;
  LocalProgram program;

  std::int64_t bytes() const {
    Graph graph;
    Node node;
    node.op = op;
    Strategy strategy;
    Placements cut;
    cut[0] = Placement::shard(0);
    for (const TensorMeta& input : inputs) {
      Node& placeholder = graph.nodes.emplace_back();
      placeholder.outputs.emplace_back(input);
      node.inputs.push_back({static_cast<std::int32_t>(node.inputs.size()), 0});
      strategy.inputs.push_back(cut);
    }
    node.outputs.emplace_back(output);
    strategy.outputs.push_back(output.shape.empty() ? Placements{} : cut);
    strategy.programs[1] = program;
    EXPECT_TRUE(may_need_workspace(node));
    return workspace_bytes(graph, node, strategy, {{4, 8}, {"dp", "tp"}});
  }
};

// 1024 rows on a device.
TEST(WorkspaceTest, softmax_keeps_statistics_of_rows_and_halves_in_float32) {
  const LocalProgram program{"log_softmax_sharded", 2, 0, 1};
  const TensorMeta wide{{4096, 1000}, {1000, 1}, DType::kFloat32};
  const TensorMeta half{{4096, 1000}, {1000, 1}, DType::kBFloat16};
  EXPECT_EQ((Workspace{{wide}, wide, "aten._log_softmax.default", program}.bytes()), 3 * 1024 * 4);
  EXPECT_EQ((Workspace{{half}, half, "aten._log_softmax.default", program}.bytes()), 3 * 1024 * 4 + 1024 * 1000 * 4);
  EXPECT_EQ((Workspace{{half}, wide, "aten._log_softmax.default", program}.bytes()), 3 * 1024 * 4);
  EXPECT_EQ((Workspace{{wide}, wide, "aten._log_softmax.default", {}}.bytes()), 0);
}

// An index of 1024 int64 on a device, with masks of a byte each.
TEST(WorkspaceTest, masked_lookups_keep_the_local_index_and_masks) {
  const TensorMeta table{{400, 64}, {64, 1}, DType::kFloat32};
  const TensorMeta index{{4096}, {1}, DType::kInt64};
  const TensorMeta rows{{4096, 64}, {64, 1}, DType::kFloat32};
  EXPECT_EQ((Workspace{{table, index}, rows, "aten.embedding.default", {"embedding_masked"}}.bytes()), 1024 * 9);
  const TensorMeta source{{4096}, {1}, DType::kFloat32};
  EXPECT_EQ((Workspace{{source, index, source}, source, "aten.scatter_add.default", {"scatter_add_masked"}}.bytes()),
            1024 * 13);
  // The loss is a number: the three masks are there before it.
  EXPECT_EQ((Workspace{{rows, index}, {{}, {}, DType::kFloat32}, "aten.nll_loss_forward.default", {"nll_loss_mean", 1}}
                 .bytes()),
            1024 * 11 - 4);
}

TEST(WorkspaceTest, losses_of_pairs_keep_all_terms) {
  const TensorMeta pairs{{4096, 8}, {8, 1}, DType::kFloat32};
  EXPECT_EQ((Workspace{{pairs, pairs}, {{}, {}, DType::kFloat32}, "aten.mse_loss.default", {}}.bytes()), 1024 * 8 * 4);
}

}  // namespace
}  // namespace autopar::costs
