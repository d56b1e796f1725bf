#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::ints;
using testing::literal;
using testing::none;
using ::testing::Not;
using testing::OneOp;
using testing::tensor;

TEST(ReductionRules, a_cut_sum_is_pending) {
  OneOp op("aten.sum.dim_IntList");
  op.arg(tensor({4, 6, 8})).arg(ints({0, -1})).output(tensor({6}));
  EXPECT_THAT(op.strategies(),
              ElementsAre("R -> R", "S(0) -> P(sum)", "S(1) -> S(0)", "S(2) -> P(sum)", "P(sum) -> P(sum)"));
}

TEST(ReductionRules, kept_dims_keep_their_numbers) {
  OneOp op("aten.sum.dim_IntList");
  op.arg(tensor({4, 6})).arg(ints({0})).arg(Arg{true}).output(tensor({1, 6}));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(0) -> P(sum)", "S(1) -> S(1)", "P(sum) -> P(sum)"));
}

TEST(ReductionRules, no_dims_means_all) {
  for (const Arg& dims : {none(), ints({})}) {
    OneOp op("aten.sum.dim_IntList");
    op.arg(tensor({4})).arg(dims).output(tensor({}));
    EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(0) -> P(sum)", "P(sum) -> P(sum)"));
  }
}

TEST(ReductionRules, averages_need_equal_pieces) {
  OneOp op("aten.mean.dim");
  op.arg(tensor({4, 6})).arg(ints({-1})).arg(Arg{true}).output(tensor({4, 1}));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(0) -> S(0)", "S(1)= -> P(avg)", "P(sum) -> P(sum)"));
  EXPECT_THAT(op.on_mesh({3}), Contains("S(1) -> P(avg)"));
  EXPECT_THAT(op.on_mesh({4}), Not(Contains("S(1) -> P(avg)")));
}

TEST(ReductionRules, extremes_are_pending_extremes) {
  OneOp amax("aten.amax.default");
  amax.arg(tensor({4, 6})).arg(ints({1})).output(tensor({4}));
  EXPECT_THAT(amax.strategies(), ElementsAre("R -> R", "S(0) -> S(0)", "S(1) -> P(max)"));
  OneOp amin("aten.amin.default");
  amin.arg(tensor({4, 6})).arg(ints({1})).output(tensor({4}));
  EXPECT_THAT(amin.strategies(), Contains("S(1) -> P(min)"));
}

TEST(ReductionRules, positions_are_not_pending) {
  OneOp op("aten.max.dim");
  op.arg(tensor({4, 6})).arg(literal(std::int64_t{1})).output(tensor({4})).output(tensor({4}, DType::kInt64));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R,R", "S(0) -> S(0),S(0)"));
}

TEST(ReductionRules, the_norm_decides_what_is_pending) {
  const auto norm = [](double order) {
    OneOp op("aten.linalg_vector_norm.default");
    op.arg(tensor({4})).arg(literal(order)).output(tensor({}));
    return op.strategies();
  };
  EXPECT_THAT(norm(2), ElementsAre("R -> R"));
  EXPECT_THAT(norm(1), ElementsAre("R -> R", "S(0) -> P(sum)"));
  EXPECT_THAT(norm(std::numeric_limits<double>::infinity()), ElementsAre("R -> R", "S(0) -> P(max)"));
}

TEST(ReductionRules, counting_truths_is_pending_in_whole_numbers) {
  OneOp op("aten.sum.default");
  op.arg(tensor({4}, DType::kBool)).output(tensor({}, DType::kInt64));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(0) -> P(sum)"));
}

}  // namespace
}  // namespace autopar::costs
