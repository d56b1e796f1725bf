#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::ElementsAre;
using testing::ints;
using testing::literal;
using testing::OneOp;
using testing::tensor;

TEST(RandomRules, every_piece_is_drawn_on_its_own) {
  OneOp op("aten.native_dropout.default");
  op.arg(tensor({4, 6})).arg(literal(0.1)).arg(Arg{true}).output(tensor({4, 6})).output(tensor({4, 6}, DType::kBool));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R,R", "S(0) -> S(0),S(0)", "S(1) -> S(1),S(1)"));
}

TEST(RandomRules, the_gradient_of_dropout_is_linear) {
  OneOp op("aten.native_dropout_backward.default");
  op.arg(tensor({4})).arg(tensor({4}, DType::kBool)).arg(literal(2.0)).output(tensor({4}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R -> R", "S(0),S(0) -> S(0)", "P(sum),R -> P(sum)"));
}

TEST(RandomRules, drawing_needs_no_input) {
  OneOp op("aten.rand.default");
  op.arg(ints({4, 1})).output(tensor({4, 1}));
  EXPECT_THAT(op.strategies(), ElementsAre(" -> R", " -> S(0)"));
}

}  // namespace
}  // namespace autopar::costs
