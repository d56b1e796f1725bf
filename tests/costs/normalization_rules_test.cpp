#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::ints;
using testing::literal;
using testing::none;
using testing::OneOp;
using testing::tensor;

TEST(NormalizationRules, leading_dims_are_independent) {
  OneOp op("aten.native_layer_norm.default");
  op.arg(tensor({4, 6, 8})).arg(ints({8})).arg(tensor({8})).arg(tensor({8})).arg(literal(1e-5));
  op.output(tensor({4, 6, 8})).output(tensor({4, 6, 1})).output(tensor({4, 6, 1}));
  EXPECT_THAT(op.strategies(),
              ElementsAre("R,R,R -> R,R,R", "S(0),R,R -> S(0),S(0),S(0)", "S(1),R,R -> S(1),S(1),S(1)"));
}

TEST(NormalizationRules, gradients_of_weights_are_pending) {
  OneOp op("aten.native_layer_norm_backward.default");
  op.arg(tensor({4, 8})).arg(tensor({4, 8})).arg(ints({8})).arg(tensor({4, 1})).arg(tensor({4, 1})).arg(tensor({8}));
  op.arg(none()).output(tensor({4, 8})).output(tensor({8})).no_output();
  EXPECT_THAT(op.strategies(), ElementsAre("R,R,R,R,R -> R,R,R", "S(0),S(0),S(0),S(0),R -> S(0),P(sum),R",
                                           "P(sum),R,R,R,R -> P(sum),P(sum),R"));
}

TEST(NormalizationRules, one_weight_gradient_of_a_fused_rms_norm) {
  OneOp op("aten._fused_rms_norm_backward.default");
  op.arg(tensor({4, 8})).arg(tensor({4, 8})).arg(ints({8})).arg(tensor({4, 1})).arg(tensor({8}));
  op.output(tensor({4, 8})).output(tensor({8}));
  EXPECT_THAT(op.strategies(), Contains("S(0),S(0),S(0),R -> S(0),P(sum)"));
}

TEST(NormalizationRules, batches_of_a_batch_norm_stay_together_in_training) {
  const auto batch_norm = [](bool training) {
    OneOp op("aten.native_batch_norm.default");
    op.arg(tensor({4, 6, 8})).arg(none()).arg(none()).arg(tensor({6})).arg(tensor({6})).arg(Arg{training});
    const std::int64_t saved = training ? 6 : 0;
    op.output(tensor({4, 6, 8})).output(tensor({saved})).output(tensor({saved}));
    return op.strategies();
  };
  EXPECT_THAT(batch_norm(true), ElementsAre("R,R,R -> R,R,R", "S(1),S(0),S(0) -> S(1),S(0),S(0)"));
  EXPECT_THAT(batch_norm(false), ElementsAre("R,R,R -> R,R,R", "S(0),R,R -> S(0),R,R", "S(1),S(0),S(0) -> S(1),R,R",
                                             "S(2),R,R -> S(2),R,R"));
}

TEST(NormalizationRules, groups_of_channels_stay_whole) {
  OneOp op("aten.native_group_norm.default");
  op.arg(tensor({4, 12, 5})).arg(tensor({12})).arg(none()).arg(literal(std::int64_t{4})).arg(literal(std::int64_t{12}));
  op.arg(literal(std::int64_t{5})).arg(literal(std::int64_t{3})).arg(literal(1e-5));
  op.output(tensor({4, 12, 5})).output(tensor({4, 3})).output(tensor({4, 3}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R -> R,R,R", "S(0),R -> S(0),S(0),S(0)",
                                           "S(1)=3,S(0)=3 -> S(1)=3,S(1)=3,S(1)=3 [native_group_norm_local_groups]"));
}

TEST(NormalizationRules, a_shape_of_too_many_dims_is_refused) {
  OneOp op("aten.native_layer_norm.default");
  op.arg(tensor({8})).arg(ints({4, 8})).arg(none()).arg(none()).arg(literal(1e-5)).output(tensor({8}));
  EXPECT_THROW(op.list(), NodeError);
}

}  // namespace
}  // namespace autopar::costs
