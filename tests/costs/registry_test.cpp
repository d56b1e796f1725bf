#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "costs/rules/rule.h"
#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using testing::ints;
using testing::literal;
using testing::OneOp;
using testing::tensor;

std::vector<std::span<const RuleEntry>> families() {
  return {attention_rules(), convolution_rules(), creation_rules(),      embedding_rules(),  indexing_rules(),
          loss_rules(),      matmul_rules(),      normalization_rules(), pointwise_rules(),  random_rules(),
          reduction_rules(), scan_rules(),        sort_rules(),          structural_rules(), view_rules()};
}

TEST(Registry, every_op_belongs_to_one_family) {
  std::set<std::string_view> seen;
  for (const auto& family : families()) {
    for (const RuleEntry& entry : family) {
      EXPECT_TRUE(seen.insert(entry.op).second) << entry.op << " is listed twice";
      EXPECT_EQ(find_rule(entry.op), entry.rule) << entry.op;
    }
  }
}

TEST(Registry, unknown_ops_have_no_rule) {
  EXPECT_EQ(find_rule("aten.no_such_op.default"), nullptr);
  EXPECT_EQ(find_rule("placeholder"), nullptr);
}

// A wrong model is refused by name rather than misread.
TEST(Registry, rules_refuse_nodes_that_do_not_fit_their_op) {
  OneOp transpose("aten.transpose.int");
  transpose.arg(tensor({4, 6})).arg(literal(std::int64_t{0})).arg(literal(std::int64_t{2})).output(tensor({6, 4}));
  EXPECT_THROW(transpose.list(), NodeError);
  OneOp permute("aten.permute.default");
  permute.arg(tensor({4, 6})).arg(ints({1, 0})).output(tensor({4, 6}));
  EXPECT_THROW(permute.list(), NodeError);
  OneOp mm("aten.mm.default");
  mm.arg(tensor({4, 6})).output(tensor({4, 6}));
  EXPECT_THROW(mm.list(), NodeError);
  OneOp add("aten.add.Tensor");
  add.arg(tensor({4, 6})).arg(tensor({4})).output(tensor({4, 6}));
  EXPECT_THROW(add.list(), NodeError);
  OneOp relu("aten.relu.default");
  relu.arg(tensor({4, 6}));
  EXPECT_THROW(relu.list(), NodeError);
}

// Ops of the captured training steps of GPT-2, Llama 3, Mixtral, Qwen3-MoE, Mamba-2, ViT, an MLP and a small
// transformer.
TEST(Registry, ops_of_well_known_models_have_rules) {
  const std::vector<std::string> ops = {
      "aten._grouped_mm.default",
      "aten._log_softmax.default",
      "aten._log_softmax_backward_data.default",
      "aten._safe_softmax.default",
      "aten._scaled_dot_product_flash_attention_for_cpu.default",
      "aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
      "aten._softmax.default",
      "aten._softmax_backward_data.default",
      "aten._to_copy.default",
      "aten._unsafe_view.default",
      "aten.add.Tensor",
      "aten.addmm.default",
      "aten.alias.default",
      "aten.arange.default",
      "aten.bitwise_not.default",
      "aten.bmm.default",
      "aten.cat.default",
      "aten.clamp.default",
      "aten.clone.default",
      "aten.constant_pad_nd.default",
      "aten.convolution.default",
      "aten.convolution_backward.default",
      "aten.cos.default",
      "aten.cumsum.default",
      "aten.detach.default",
      "aten.div.Scalar",
      "aten.div.Tensor",
      "aten.embedding.default",
      "aten.embedding_dense_backward.default",
      "aten.empty_like.default",
      "aten.erf.default",
      "aten.exp.default",
      "aten.expand.default",
      "aten.flip.default",
      "aten.floor_divide.default",
      "aten.ge.Scalar",
      "aten.gelu.default",
      "aten.gelu_backward.default",
      "aten.histc.default",
      "aten.index.Tensor",
      "aten.index_put.default",
      "aten.le.Scalar",
      "aten.logical_and.default",
      "aten.masked_fill.Scalar",
      "aten.mean.default",
      "aten.mean.dim",
      "aten.mm.default",
      "aten.mul.Scalar",
      "aten.mul.Tensor",
      "aten.native_dropout.default",
      "aten.native_dropout_backward.default",
      "aten.native_layer_norm.default",
      "aten.native_layer_norm_backward.default",
      "aten.neg.default",
      "aten.new_zeros.default",
      "aten.nll_loss_backward.default",
      "aten.nll_loss_forward.default",
      "aten.ones.default",
      "aten.permute.default",
      "aten.pow.Tensor_Scalar",
      "aten.rsqrt.default",
      "aten.scalar_tensor.default",
      "aten.scatter.src",
      "aten.select.int",
      "aten.select_backward.default",
      "aten.silu.default",
      "aten.silu_backward.default",
      "aten.sin.default",
      "aten.slice.Tensor",
      "aten.slice_backward.default",
      "aten.softplus.default",
      "aten.softplus_backward.default",
      "aten.sort.default",
      "aten.split.Tensor",
      "aten.split_with_sizes.default",
      "aten.squeeze.dim",
      "aten.sub.Tensor",
      "aten.sum.dim_IntList",
      "aten.t.default",
      "aten.tanh.default",
      "aten.tanh_backward.default",
      "aten.topk.default",
      "aten.transpose.int",
      "aten.tril.default",
      "aten.unsqueeze.default",
      "aten.view.default",
      "aten.where.self",
      "aten.zeros_like.default",
      "prims.convert_element_type.default",
  };
  for (const std::string& op : ops) EXPECT_NE(find_rule(op), nullptr) << op;
}

}  // namespace
}  // namespace autopar::costs
