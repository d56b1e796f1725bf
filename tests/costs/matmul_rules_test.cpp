#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::none;
using ::testing::Not;
using testing::OneOp;
using testing::tensor;

constexpr DType kBF16 = DType::kBFloat16;

TEST(MatmulRules, mm_has_the_six_ways) {
  OneOp op("aten.mm.default");
  op.arg(tensor({8, 4})).arg(tensor({4, 6})).output(tensor({8, 6}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R -> R", "S(0),R -> S(0)", "R,S(1) -> S(1)", "S(1),S(0) -> P(sum)",
                                           "P(sum),R -> P(sum)", "R,P(sum) -> P(sum)"));
}

TEST(MatmulRules, one_row_cannot_be_cut) {
  OneOp op("aten.mm.default");
  op.arg(tensor({1, 4})).arg(tensor({4, 6})).output(tensor({1, 6}));
  EXPECT_THAT(op.strategies(), Not(Contains(HasSubstr("S(0),R"))));
}

TEST(MatmulRules, bias_of_a_pending_product_is_pending) {
  OneOp op("aten.addmm.default");
  op.arg(tensor({6})).arg(tensor({8, 4})).arg(tensor({4, 6})).output(tensor({8, 6}));
  EXPECT_THAT(op.strategies(),
              ElementsAre("R,R,R -> R", "R,S(0),R -> S(0)", "S(0),R,S(1) -> S(1)", "P(sum),S(1),S(0) -> P(sum)",
                          "P(sum),P(sum),R -> P(sum)", "P(sum),R,P(sum) -> P(sum)"));
}

TEST(MatmulRules, bias_with_rows_is_cut_by_rows) {
  OneOp op("aten.addmm.default");
  op.arg(tensor({8, 6})).arg(tensor({8, 4})).arg(tensor({4, 6})).output(tensor({8, 6}));
  EXPECT_THAT(op.strategies(), Contains("S(0),S(0),R -> S(0)"));
  EXPECT_THAT(op.strategies(), Contains("S(1),R,S(1) -> S(1)"));
}

TEST(MatmulRules, bmm_cuts_the_batch_too) {
  OneOp op("aten.bmm.default");
  op.arg(tensor({3, 8, 4})).arg(tensor({3, 4, 6})).output(tensor({3, 8, 6}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R -> R", "S(0),S(0) -> S(0)", "S(1),R -> S(1)", "R,S(2) -> S(2)",
                                           "S(2),S(1) -> P(sum)", "P(sum),R -> P(sum)", "R,P(sum) -> P(sum)"));
}

TEST(MatmulRules, experts_stay_whole_where_offsets_count_their_rows) {
  OneOp op("aten._grouped_mm.default");
  op.arg(tensor({64, 32}, kBF16)).arg(tensor({4, 32, 48}, kBF16)).arg(tensor({4}, DType::kInt32));
  op.output(tensor({64, 48}, kBF16));
  // 16 bytes hold 8 bfloat16: 48 columns are 6 units, a contraction of 32 is 4.
  EXPECT_THAT(op.strategies(), ElementsAre("R,R,R -> R", "R,S(2)=6,R -> S(1)=6", "S(1)=4,S(1)=4,R -> P(sum)",
                                           "P(sum),R,R -> P(sum)", "R,P(sum),R -> P(sum)"));
}

TEST(MatmulRules, grouped_contraction_stays_whole) {
  OneOp op("aten._grouped_mm.default");
  op.arg(tensor({32, 64}, kBF16)).arg(tensor({64, 48}, kBF16)).arg(tensor({4}, DType::kInt32));
  op.output(tensor({4, 32, 48}, kBF16));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R,R -> R", "S(0)=4,R,R -> S(1)=4", "R,S(1)=6,R -> S(2)=6",
                                           "P(sum),R,R -> P(sum)", "R,P(sum),R -> P(sum)"));
}

TEST(MatmulRules, misaligned_rows_of_grouped_products_are_not_cut) {
  OneOp op("aten._grouped_mm.default");
  op.arg(tensor({64, 32}, kBF16)).arg(tensor({4, 32, 44}, kBF16)).arg(tensor({4}, DType::kInt32));
  op.output(tensor({64, 44}, kBF16));
  EXPECT_THAT(op.strategies(), Each(Not(HasSubstr("S(2)"))));
}

TEST(MatmulRules, scales_follow_the_rows_and_columns_they_scale) {
  const DType fp8 = DType::kFloat8E4M3;
  OneOp rows("aten._scaled_mm.default");
  rows.arg(tensor({12, 64}, fp8)).arg(tensor({64, 32}, fp8)).arg(tensor({12, 1})).arg(tensor({1, 32}));
  rows.output(tensor({12, 32}, kBF16));
  EXPECT_THAT(rows.strategies(), ElementsAre("R,R,R,R -> R", "S(0),R,S(0),R -> S(0)", "R,S(1)=2,R,S(1) -> S(1)=2",
                                             "S(1)=4,S(0)=4,R,R -> P(sum)"));
  OneOp blocks("aten._scaled_mm.default");
  blocks.arg(tensor({12, 64}, fp8)).arg(tensor({64, 32}, fp8)).arg(tensor({12, 2})).arg(tensor({2, 32}));
  blocks.output(tensor({12, 32}, kBF16));
  EXPECT_THAT(blocks.strategies(), ElementsAre("R,R,R,R -> R"));
}

// CASES.md row 10: [32, ...] must not be offered in 256 pieces on a 32×8 mesh, some of them empty.
TEST(MatmulRules, no_device_gets_an_empty_piece) {
  OneOp op("aten.bmm.default");
  op.arg(tensor({32, 64, 64})).arg(tensor({32, 64, 64})).output(tensor({32, 64, 64}));
  EXPECT_THAT(op.on_mesh({32, 8}), Not(Contains("S(0)S(0),S(0)S(0) -> S(0)S(0)")));
  EXPECT_THAT(op.on_mesh({32, 8}), Contains("S(0)S(1),S(0)R -> S(0)S(1)"));
}

// CASES.md row 11: uneven pieces are legal, empty ones are not.
TEST(MatmulRules, a_vocabulary_that_does_not_divide_can_be_cut) {
  OneOp op("aten.mm.default");
  op.arg(tensor({16, 8})).arg(tensor({8, 50257})).output(tensor({16, 50257}));
  EXPECT_THAT(op.on_mesh({8}), Contains("R,S(1) -> S(1)"));
  OneOp small("aten.mm.default");
  small.arg(tensor({10, 8})).arg(tensor({8, 8})).output(tensor({10, 8}));
  EXPECT_THAT(small.on_mesh({3}), Contains("S(0),R -> S(0)"));
  EXPECT_THAT(small.on_mesh({9}), Not(Contains("S(0),R -> S(0)")));  // pieces of 2 leave four of nine devices without
}

}  // namespace
}  // namespace autopar::costs
