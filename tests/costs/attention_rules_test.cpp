#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using testing::literal;
using testing::none;
using ::testing::Not;
using testing::OneOp;
using testing::tensor;

OneOp cpu(std::int64_t heads, std::int64_t key_heads, bool causal) {
  OneOp op("aten._scaled_dot_product_flash_attention_for_cpu.default");
  op.arg(tensor({4, heads, 16, 8})).arg(tensor({4, key_heads, 16, 8})).arg(tensor({4, key_heads, 16, 8}));
  op.arg(literal(0.0)).arg(Arg{causal}).output(tensor({4, heads, 16, 8})).output(tensor({4, heads, 16}));
  return op;
}

TEST(AttentionRules, a_causal_mask_keeps_rows_together) {
  EXPECT_THAT(cpu(8, 8, true).strategies(), ElementsAre("R,R,R -> R,R", "S(0),S(0),S(0) -> S(0),S(0)",
                                                        "S(1),S(1),S(1) -> S(1),S(1)", "R,R,P(sum) -> P(sum),R"));
  EXPECT_THAT(cpu(8, 8, false).strategies(), Contains("S(2),R,R -> S(2),S(2)"));
}

TEST(AttentionRules, grouped_heads_stay_with_their_key_head) {
  EXPECT_THAT(cpu(32, 8, true).strategies(), Contains("S(1)=8,S(1)=8,S(1)=8 -> S(1)=8,S(1)=8"));
  // Eight devices get a key head each, sixteen would have to share.
  EXPECT_THAT(cpu(32, 8, true).on_mesh({8}), Contains("S(1),S(1),S(1) -> S(1),S(1)"));
  EXPECT_THAT(cpu(32, 8, true).on_mesh({16}), Not(Contains("S(1),S(1),S(1) -> S(1),S(1)")));
}

TEST(AttentionRules, two_key_heads_on_eight_devices_are_replicated) {
  EXPECT_THAT(cpu(16, 2, true).on_mesh({8}), Contains("R,R,R -> R,R"));
  EXPECT_THAT(cpu(16, 2, true).on_mesh({8}), Not(Contains("S(1),S(1),S(1) -> S(1),S(1)")));
}

TEST(AttentionRules, a_mask_is_cut_where_it_is_not_broadcast) {
  OneOp op("aten._scaled_dot_product_flash_attention_for_cpu.default");
  op.arg(tensor({4, 8, 16, 8})).arg(tensor({4, 8, 16, 8})).arg(tensor({4, 8, 16, 8}));
  op.kwarg("attn_mask", op.input(tensor({4, 1, 16, 16})));
  op.output(tensor({4, 8, 16, 8})).output(tensor({4, 8, 16}));
  EXPECT_THAT(op.strategies(), IsSupersetOf({"S(0),S(0),S(0),S(0) -> S(0),S(0)", "S(1),S(1),S(1),R -> S(1),S(1)",
                                             "S(2),R,R,S(2) -> S(2),S(2)"}));
}

TEST(AttentionRules, backward_cuts_rows_or_keys_unless_causal) {
  const auto backward = [](bool causal) {
    OneOp op("aten._scaled_dot_product_flash_attention_backward.default");
    for (int i = 0; i < 5; ++i) op.arg(tensor({4, 8, 16, 8}));
    op.arg(tensor({4, 8, 16})).arg(none()).arg(none()).arg(literal(std::int64_t{16})).arg(literal(std::int64_t{16}));
    op.arg(literal(0.0)).arg(Arg{causal}).arg(tensor({}, DType::kInt64)).arg(tensor({}, DType::kInt64));
    for (int i = 0; i < 3; ++i) op.output(tensor({4, 8, 16, 8}));
    return op.strategies();
  };
  const std::string rows = "S(2),S(2),R,R,S(2),S(2),R,R -> S(2),P(sum),P(sum)";
  const std::string keys = "R,R,S(2),S(2),R,R,R,R -> P(sum),S(2),S(2)";
  EXPECT_THAT(backward(false), IsSupersetOf({rows, keys, std::string("P(sum),R,R,R,R,R,R,R -> P(sum),P(sum),P(sum)")}));
  EXPECT_THAT(backward(true), Not(Contains(rows)));
  EXPECT_THAT(backward(true), Not(Contains(keys)));
  EXPECT_THAT(backward(true), Contains("S(1),S(1),S(1),S(1),S(1),S(1),R,R -> S(1),S(1),S(1)"));
}

TEST(AttentionRules, the_gradient_of_a_broadcast_bias_is_pending) {
  OneOp op("aten._scaled_dot_product_efficient_attention_backward.default");
  for (int i = 0; i < 4; ++i) op.arg(tensor({4, 8, 16, 8}));
  op.arg(tensor({1, 8, 16, 16})).arg(tensor({4, 8, 16, 8})).arg(tensor({4, 8, 16}));
  op.arg(tensor({}, DType::kInt64)).arg(tensor({}, DType::kInt64)).arg(literal(0.0));
  op.arg(Arg{Arg::List{Arg{true}, Arg{true}, Arg{true}, Arg{true}}});
  for (int i = 0; i < 3; ++i) op.output(tensor({4, 8, 16, 8}));
  op.output(tensor({1, 8, 16, 16}));
  EXPECT_THAT(op.strategies(), IsSupersetOf({"S(0),S(0),S(0),S(0),R,S(0),S(0),R,R -> S(0),S(0),S(0),P(sum)",
                                             "S(1),S(1),S(1),S(1),S(1),S(1),S(1),R,R -> S(1),S(1),S(1),S(1)"}));
}

TEST(AttentionRules, padded_statistics_keep_rows_together) {
  OneOp op("aten._scaled_dot_product_efficient_attention.default");
  for (int i = 0; i < 3; ++i) op.arg(tensor({4, 8, 20, 8}));
  op.arg(none()).arg(Arg{true}).output(tensor({4, 8, 20, 8})).output(tensor({4, 8, 32}));
  op.output(tensor({}, DType::kInt64)).output(tensor({}, DType::kInt64));
  EXPECT_THAT(op.strategies(), Not(Contains("S(2),R,R -> S(2),S(2),R,R")));
  EXPECT_THAT(op.strategies(), Contains("S(1),S(1),S(1) -> S(1),S(1),R,R"));
}

TEST(AttentionRules, what_is_missing_is_named) {
  OneOp op("aten._scaled_dot_product_flash_attention.default");
  op.arg(tensor({4, 8, 16, 8})).arg(tensor({4, 8, 16, 8})).output(tensor({4, 8, 16, 8}));
  EXPECT_THROW(op.list(), NodeError);
}

}  // namespace
}  // namespace autopar::costs
