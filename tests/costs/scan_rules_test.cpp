#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::ElementsAre;
using testing::literal;
using testing::OneOp;
using testing::tensor;

TEST(ScanRules, the_scanned_dim_stays_whole) {
  OneOp op("aten.cumprod.default");
  op.arg(tensor({4, 6})).arg(literal(std::int64_t{-1})).output(tensor({4, 6}));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(0) -> S(0)"));
}

TEST(ScanRules, sums_of_pending_sums_are_pending_unless_rounded) {
  OneOp op("aten.cumsum.default");
  op.arg(tensor({4, 6})).arg(literal(std::int64_t{0})).output(tensor({4, 6}));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(1) -> S(1)", "P(sum) -> P(sum)"));
  OneOp rounded("aten.cumsum.default");
  rounded.arg(tensor({4, 6})).arg(literal(std::int64_t{0})).output(tensor({4, 6}, DType::kInt64));
  EXPECT_THAT(rounded.strategies(), ElementsAre("R -> R", "S(1) -> S(1)"));
}

TEST(ScanRules, positions_come_with_values) {
  OneOp op("aten.cummax.default");
  op.arg(tensor({4, 6})).arg(literal(std::int64_t{0})).output(tensor({4, 6})).output(tensor({4, 6}, DType::kInt64));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R,R", "S(1) -> S(1),S(1)"));
}

}  // namespace
}  // namespace autopar::costs
