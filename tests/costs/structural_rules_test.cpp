#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::ints;
using testing::literal;
using ::testing::Not;
using testing::OneOp;
using testing::tensor;

TEST(StructuralRules, cat_keeps_its_dim_whole) {
  OneOp op("aten.cat.default");
  op.args({tensor({4, 2}), tensor({4, 3})}).arg(literal(std::int64_t{-1})).output(tensor({4, 5}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R -> R", "S(0),S(0) -> S(0)", "P(sum),P(sum) -> P(sum)"));
}

TEST(StructuralRules, stack_shifts_the_dims_behind) {
  OneOp op("aten.stack.default");
  op.args({tensor({4, 6}), tensor({4, 6})}).arg(literal(std::int64_t{1})).output(tensor({4, 2, 6}));
  EXPECT_THAT(op.strategies(),
              ElementsAre("R,R -> R", "S(0),S(0) -> S(0)", "S(1),S(1) -> S(2)", "P(sum),P(sum) -> P(sum)"));
}

TEST(StructuralRules, only_zeros_pad_a_pending_sum) {
  const auto pad = [](const std::vector<std::int64_t>& sizes, double value, std::int64_t columns) {
    OneOp op("aten.constant_pad_nd.default");
    op.arg(tensor({4, 6})).arg(ints(sizes)).arg(literal(value)).output(tensor({4, columns}));
    return op.strategies();
  };
  EXPECT_THAT(pad({0, 1, 0, 0}, 0, 7), ElementsAre("R -> R", "S(0) -> S(0)", "P(sum) -> P(sum)"));
  EXPECT_THAT(pad({0, 1}, -100, 7), ElementsAre("R -> R", "S(0) -> S(0)"));
  EXPECT_THAT(pad({-1, 0}, -100, 5), Contains("P(sum) -> P(sum)"));
  EXPECT_THAT(pad({0, 0}, 0, 6), Contains("S(1) -> S(1)"));
}

TEST(StructuralRules, moved_dims_stay_whole) {
  OneOp flip("aten.flip.default");
  flip.arg(tensor({4, 6})).arg(ints({-2})).output(tensor({4, 6}));
  EXPECT_THAT(flip.strategies(), ElementsAre("R -> R", "S(1) -> S(1)", "P(sum) -> P(sum)"));
  OneOp roll("aten.roll.default");
  roll.arg(tensor({4, 6})).arg(ints({1})).output(tensor({4, 6}));
  EXPECT_THAT(roll.strategies(), ElementsAre("R -> R", "P(sum) -> P(sum)"));
}

TEST(StructuralRules, triangles_need_both_last_dims) {
  OneOp op("aten.tril.default");
  op.arg(tensor({2, 4, 4})).output(tensor({2, 4, 4}));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(0) -> S(0)", "P(sum) -> P(sum)"));
}

TEST(StructuralRules, repeated_dims_stay_whole) {
  OneOp op("aten.repeat.default");
  op.arg(tensor({4, 6})).arg(ints({2, 1, 3})).output(tensor({2, 4, 18}));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(0) -> S(1)", "P(sum) -> P(sum)"));
}

}  // namespace
}  // namespace autopar::costs
