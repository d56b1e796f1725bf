#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::ElementsAre;
using testing::literal;
using testing::OneOp;
using testing::tensor;

TEST(SortRules, the_sorted_dim_stays_whole) {
  OneOp op("aten.topk.default");
  op.arg(tensor({4, 6})).arg(literal(std::int64_t{2})).output(tensor({4, 2})).output(tensor({4, 2}, DType::kInt64));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R,R", "S(0) -> S(0),S(0)"));
}

TEST(SortRules, a_stable_sort_is_told_its_dim_by_keyword) {
  OneOp op("aten.sort.stable");
  op.arg(tensor({4, 6})).kwarg("stable", Arg{true}).kwarg("dim", literal(std::int64_t{0}));
  op.output(tensor({4, 6})).output(tensor({4, 6}, DType::kInt64));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R,R", "S(1) -> S(1),S(1)"));
}

TEST(SortRules, dims_behind_a_chosen_one_move_up) {
  OneOp op("aten.kthvalue.default");
  op.arg(tensor({4, 6, 8})).arg(literal(std::int64_t{2})).arg(literal(std::int64_t{1}));
  op.output(tensor({4, 8})).output(tensor({4, 8}, DType::kInt64));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R,R", "S(0) -> S(0),S(0)", "S(2) -> S(1),S(1)"));
}

TEST(SortRules, counts_add_up_over_a_given_range) {
  OneOp op("aten.histc.default");
  op.arg(tensor({8})).arg(literal(std::int64_t{4})).arg(literal(std::int64_t{0})).arg(literal(std::int64_t{3}));
  op.output(tensor({4}));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(0) -> P(sum)"));
  OneOp own_range("aten.histc.default");
  own_range.arg(tensor({8})).arg(literal(std::int64_t{4})).output(tensor({4}));
  EXPECT_THAT(own_range.strategies(), ElementsAre("R -> R"));
}

TEST(SortRules, a_dim_that_is_not_there_is_refused) {
  OneOp op("aten.sort.default");
  op.arg(tensor({4})).arg(literal(std::int64_t{1})).output(tensor({4})).output(tensor({4}, DType::kInt64));
  EXPECT_THROW(op.list(), NodeError);
}

}  // namespace
}  // namespace autopar::costs
