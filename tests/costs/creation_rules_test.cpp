#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::ElementsAre;
using testing::ints;
using ::testing::IsSupersetOf;
using testing::literal;
using testing::OneOp;
using testing::tensor;
using ::testing::UnorderedElementsAre;

TEST(CreationRules, constants_are_made_in_any_piece) {
  OneOp ones("aten.ones.default");
  ones.arg(ints({4, 6})).output(tensor({4, 6}));
  EXPECT_THAT(ones.strategies(), ElementsAre(" -> R", " -> S(0)", " -> S(1)"));
}

TEST(CreationRules, zeros_are_a_pending_sum_too) {
  OneOp zeros("aten.full.default");
  zeros.arg(ints({4})).arg(literal(0.0)).output(tensor({4}));
  EXPECT_THAT(zeros.strategies(), ElementsAre(" -> R", " -> S(0)", " -> P(sum)"));
  OneOp scalar("aten.scalar_tensor.default");
  scalar.arg(literal(1.0)).output(tensor({}));
  EXPECT_THAT(scalar.strategies(), ElementsAre(" -> R"));
}

TEST(CreationRules, counting_needs_the_position) {
  OneOp op("aten.arange.default");
  op.arg(literal(std::int64_t{4})).output(tensor({4}, DType::kInt64));
  EXPECT_THAT(op.strategies(), ElementsAre(" -> R"));
}

TEST(CreationRules, local_sizes_come_from_the_model_tensor) {
  OneOp op("aten.zeros_like.default");
  op.arg(tensor({4, 6})).output(tensor({4, 6}));
  EXPECT_THAT(op.strategies(), UnorderedElementsAre("R -> R", "S(0) -> S(0)", "S(1) -> S(1)", "P(sum) -> R",
                                                    "R -> P(sum)", "P(sum) -> P(sum)"));
}

TEST(CreationRules, a_tensor_that_lends_its_dtype_need_not_move) {
  OneOp op("aten.new_zeros.default");
  op.arg(tensor({4, 6})).arg(ints({8})).output(tensor({8}));
  EXPECT_THAT(op.strategies(), IsSupersetOf({"S(1) -> R", "P(sum) -> R", "R -> S(0)", "R -> P(sum)", "S(0) -> S(0)"}));
}

}  // namespace
}  // namespace autopar::costs
