#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::literal;
using testing::none;
using testing::OneOp;
using testing::tensor;

OneOp cross_entropy(std::int64_t reduction) {
  OneOp op("aten.nll_loss_forward.default");
  op.arg(tensor({8, 100})).arg(tensor({8}, DType::kInt64)).arg(none()).arg(literal(reduction));
  op.arg(literal(std::int64_t{-100})).output(reduction == 0 ? tensor({8}) : tensor({})).output(tensor({}));
  return op;
}

// Ignored rows make means over pieces differ in weight, so a mean of means would be wrong.
TEST(LossRules, a_mean_over_cut_rows_divides_by_the_whole_count) {
  EXPECT_THAT(cross_entropy(1).strategies(),
              ElementsAre("R,R -> R,R", "S(0),S(0) -> P(sum),R [nll_loss_mean]",
                          "S(1),R -> P(sum),R [nll_loss_sharded]", "P(sum),R -> P(sum),R"));
}

TEST(LossRules, sums_over_cut_rows_are_pending) {
  EXPECT_THAT(cross_entropy(2).strategies(), Contains("S(0),S(0) -> P(sum),P(sum)"));
  EXPECT_THAT(cross_entropy(0).strategies(), Contains("S(0),S(0) -> S(0),R"));
}

TEST(LossRules, the_mean_all_reduces_one_number) {
  const std::vector<OneDimStrategy> strategies = cross_entropy(1).list();
  ASSERT_EQ(strategies[1].program.name, "nll_loss_mean");
  EXPECT_EQ(strategies[1].program.num_all_reduces, 1);
  EXPECT_EQ(strategies[1].program.reduced_input, -1);
  EXPECT_EQ(strategies[2].program.num_all_reduces, 0);
}

TEST(LossRules, rows_of_the_gradient_need_the_whole_count) {
  OneOp op("aten.nll_loss_backward.default");
  op.arg(tensor({})).arg(tensor({8, 100})).arg(tensor({8}, DType::kInt64)).arg(none()).arg(literal(std::int64_t{1}));
  op.arg(literal(std::int64_t{-100})).arg(tensor({})).output(tensor({8, 100}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R,R,R -> R", "R,S(0),S(0),R -> S(0)", "P(sum),R,R,R -> P(sum)",
                                           "R,S(1),R,R -> S(1) [nll_loss_backward_sharded]"));
}

TEST(LossRules, rows_of_a_softmax_are_independent) {
  OneOp op("aten._log_softmax.default");
  op.arg(tensor({4, 8, 100})).arg(literal(std::int64_t{-1})).arg(Arg{false}).output(tensor({4, 8, 100}));
  EXPECT_THAT(op.strategies(),
              ElementsAre("R -> R", "S(0) -> S(0)", "S(1) -> S(1)", "S(2) -> S(2) [log_softmax_sharded]"));
  const LocalProgram program = op.list().back().program;
  EXPECT_EQ(program.num_all_reduces, 2) << "the maximum and the sum";
  EXPECT_EQ(program.reduced_dim, 2);
}

TEST(LossRules, a_mean_of_pairs_needs_equal_pieces) {
  OneOp op("aten.mse_loss.default");
  op.arg(tensor({6, 4})).arg(tensor({6, 4})).output(tensor({}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R -> R", "S(0)=,S(0)= -> P(avg)", "S(1)=,S(1)= -> P(avg)"));
}

TEST(LossRules, an_unknown_reduction_is_refused) { EXPECT_THROW(cross_entropy(3).list(), NodeError); }

}  // namespace
}  // namespace autopar::costs
