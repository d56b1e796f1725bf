#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::ints;
using ::testing::IsSupersetOf;
using testing::literal;
using ::testing::Not;
using testing::OneOp;
using testing::tensor;

Arg groups(std::int64_t n) { return literal(n); }

OneOp convolution(const TensorMeta& input, const TensorMeta& weight, std::int64_t num_groups,
                  const TensorMeta& output) {
  OneOp op("aten.convolution.default");
  op.arg(input).arg(weight).arg(tensor({output.shape[1]})).arg(ints({1})).arg(ints({3})).arg(ints({1}));
  op.arg(Arg{false}).arg(ints({0})).arg(groups(num_groups)).output(output);
  return op;
}

TEST(ConvolutionRules, input_channels_are_contracted) {
  OneOp op = convolution(tensor({4, 6, 9}), tensor({8, 6, 3}), 1, tensor({4, 8, 9}));
  EXPECT_THAT(op.strategies(),
              ElementsAre("R,R,R -> R", "S(0),R,R -> S(0)", "R,S(0),S(0) -> S(1)", "S(1),S(1),P(sum) -> P(sum)",
                          "P(sum),R,P(sum) -> P(sum)", "R,P(sum),P(sum) -> P(sum)"));
}

// Mamba's convolution: a filter for each channel.
TEST(ConvolutionRules, groups_stay_whole_and_are_counted_locally) {
  OneOp op = convolution(tensor({4, 96, 9}), tensor({96, 1, 4}), 96, tensor({4, 96, 9}));
  EXPECT_THAT(op.strategies(), Contains("S(1)=96,S(0)=96,S(0)=96 -> S(1)=96 [convolution_local_groups]"));
  EXPECT_THAT(op.strategies(), Not(Contains("S(1),S(1),P(sum) -> P(sum)")));
  EXPECT_THAT(op.on_mesh({5}), Not(Contains("S(1),S(0),S(0) -> S(1)")));
}

TEST(ConvolutionRules, gradients_that_are_not_asked_for_have_no_placement) {
  OneOp op("aten.convolution_backward.default");
  op.arg(tensor({4, 8, 9})).arg(tensor({4, 6, 9})).arg(tensor({8, 6, 3})).arg(ints({8})).arg(ints({1})).arg(ints({1}));
  op.arg(ints({1})).arg(Arg{false}).arg(ints({0})).arg(groups(1)).no_output().output(tensor({8, 6, 3}));
  op.output(tensor({8}));
  EXPECT_THAT(op.strategies(), IsSupersetOf({"S(0),S(0),R -> R,P(sum),P(sum)", "S(1),R,S(0) -> R,S(0),S(0)",
                                             "R,S(1),S(1) -> R,S(1),R"}));
}

}  // namespace
}  // namespace autopar::costs
