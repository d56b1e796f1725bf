#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::literal;
using ::testing::Not;
using testing::OneOp;
using testing::tensor;

TEST(EmbeddingRules, a_table_cut_by_rows_is_masked) {
  OneOp op("aten.embedding.default");
  op.arg(tensor({50257, 64})).arg(tensor({4, 16}, DType::kInt64)).output(tensor({4, 16, 64}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R -> R", "R,S(0) -> S(0)", "R,S(1) -> S(1)", "S(1),R -> S(2)",
                                           "P(sum),R -> P(sum)", "S(0),R -> P(sum) [embedding_masked]"));
  EXPECT_THAT(op.on_mesh({8}), Contains("S(0),R -> P(sum)")) << "uneven pieces are fine";
}

TEST(EmbeddingRules, gradients_of_cut_indices_are_pending) {
  const auto backward = [](bool by_frequency) {
    OneOp op("aten.embedding_dense_backward.default");
    op.arg(tensor({4, 16, 64})).arg(tensor({4, 16}, DType::kInt64)).arg(literal(std::int64_t{1000}));
    op.arg(literal(std::int64_t{-1})).arg(Arg{by_frequency}).output(tensor({1000, 64}));
    return op.strategies();
  };
  EXPECT_THAT(backward(false), ElementsAre("R,R -> R", "S(0),S(0) -> P(sum)", "S(1),S(1) -> P(sum)", "S(2),R -> S(1)",
                                           "P(sum),R -> P(sum)", "R,R -> S(0) [embedding_dense_backward_masked]"));
  EXPECT_THAT(backward(true), Not(Contains("S(0),S(0) -> P(sum)")));
}

}  // namespace
}  // namespace autopar::costs
