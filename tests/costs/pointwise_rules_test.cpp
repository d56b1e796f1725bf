#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::literal;
using ::testing::Not;
using testing::OneOp;
using testing::tensor;

TEST(PointwiseRules, broadcast_dims_stay_whole) {
  OneOp op("aten.mul.Tensor");
  op.arg(tensor({4, 1, 6})).arg(tensor({5, 6})).output(tensor({4, 5, 6}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R -> R", "S(0),R -> S(0)", "R,S(0) -> S(1)", "S(2),S(1) -> S(2)",
                                           "P(sum),R -> P(sum)", "R,P(sum) -> P(sum)"));
}

TEST(PointwiseRules, sums_are_pending_together_or_not_at_all) {
  OneOp op("aten.add.Tensor");
  op.arg(tensor({4})).arg(tensor({4})).kwarg("alpha", literal(2.0)).output(tensor({4}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R -> R", "S(0),S(0) -> S(0)", "P(sum),P(sum) -> P(sum)"));
}

// CASES.md row 14: a number added to a pending sum would be added once per device.
TEST(PointwiseRules, a_number_is_not_added_to_a_pending_sum) {
  for (const char* name : {"aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.rsub.Scalar"}) {
    OneOp op(name);
    op.arg(tensor({4})).arg(literal(1.0)).output(tensor({4}));
    EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(0) -> S(0)")) << name;
  }
  for (const char* name : {"aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar"}) {
    OneOp op(name);
    op.arg(tensor({4})).arg(literal(2.0)).output(tensor({4}));
    EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(0) -> S(0)", "P(sum) -> P(sum)")) << name;
  }
}

TEST(PointwiseRules, division_is_linear_in_the_dividend_only) {
  OneOp op("aten.div.Tensor");
  op.arg(tensor({4})).arg(tensor({4})).output(tensor({4}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R -> R", "S(0),S(0) -> S(0)", "P(sum),R -> P(sum)"));
}

// CASES.md row 15: a pending sum is cast before it is reduced, so that the reduction can run in the wider type.
TEST(PointwiseRules, casts_carry_pending_sums) {
  OneOp widen("prims.convert_element_type.default");
  widen.arg(tensor({4}, DType::kBFloat16)).arg(Arg{Arg::Name{"float32"}}).output(tensor({4}));
  EXPECT_THAT(widen.strategies(), ElementsAre("R -> R", "S(0) -> S(0)", "P(sum) -> P(sum)"));
  OneOp copy("aten._to_copy.default");
  copy.arg(tensor({4})).kwarg("dtype", Arg{Arg::Name{"bfloat16"}}).output(tensor({4}, DType::kBFloat16));
  EXPECT_THAT(copy.strategies(), Contains("P(sum) -> P(sum)"));
}

TEST(PointwiseRules, casts_that_round_or_saturate_do_not) {
  OneOp round("aten._to_copy.default");
  round.arg(tensor({4})).output(tensor({4}, DType::kInt64));
  EXPECT_THAT(round.strategies(), ElementsAre("R -> R", "S(0) -> S(0)"));
  OneOp saturate("aten._to_copy.default");
  saturate.arg(tensor({4}, DType::kInt64)).output(tensor({4}, DType::kBool));
  EXPECT_THAT(saturate.strategies(), ElementsAre("R -> R", "S(0) -> S(0)"));
  OneOp widen("aten._to_copy.default");
  widen.arg(tensor({4}, DType::kInt32)).output(tensor({4}));
  EXPECT_THAT(widen.strategies(), Contains("P(sum) -> P(sum)"));
}

TEST(PointwiseRules, only_zeros_are_filled_into_a_pending_sum) {
  const auto fill = [](double value) {
    OneOp op("aten.masked_fill.Scalar");
    op.arg(tensor({2, 4})).arg(tensor({4}, DType::kBool)).arg(literal(value)).output(tensor({2, 4}));
    return op.strategies();
  };
  EXPECT_THAT(fill(0.0), ElementsAre("R,R -> R", "S(0),R -> S(0)", "S(1),S(0) -> S(1)", "P(sum),R -> P(sum)"));
  EXPECT_THAT(fill(-std::numeric_limits<double>::infinity()), Each(Not(HasSubstr("P(sum)"))));
}

TEST(PointwiseRules, where_selects_among_pending_sums) {
  OneOp op("aten.where.self");
  op.arg(tensor({4}, DType::kBool)).arg(tensor({4})).arg(tensor({})).output(tensor({4}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R,R -> R", "S(0),S(0),R -> S(0)", "R,P(sum),P(sum) -> P(sum)"));
  OneOp zero("aten.where.ScalarOther");
  zero.arg(tensor({4}, DType::kBool)).arg(tensor({4})).arg(literal(0.0)).output(tensor({4}));
  EXPECT_THAT(zero.strategies(), Contains("R,P(sum) -> P(sum)"));
  OneOp one("aten.where.ScalarOther");
  one.arg(tensor({4}, DType::kBool)).arg(tensor({4})).arg(literal(1.0)).output(tensor({4}));
  EXPECT_THAT(one.strategies(), Not(Contains("R,P(sum) -> P(sum)")));
}

TEST(PointwiseRules, activations_are_not_linear_but_their_gradients_are) {
  OneOp forward("aten.silu.default");
  forward.arg(tensor({4})).output(tensor({4}));
  EXPECT_THAT(forward.strategies(), ElementsAre("R -> R", "S(0) -> S(0)"));
  OneOp backward("aten.silu_backward.default");
  backward.arg(tensor({4})).arg(tensor({4})).output(tensor({4}));
  EXPECT_THAT(backward.strategies(), ElementsAre("R,R -> R", "S(0),S(0) -> S(0)", "P(sum),R -> P(sum)"));
}

TEST(PointwiseRules, truth_values_are_never_pending) {
  OneOp op("aten.clone.default");
  op.arg(tensor({4}, DType::kBool)).output(tensor({4}, DType::kBool));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(0) -> S(0)"));
}

}  // namespace
}  // namespace autopar::costs
