#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::literal;
using testing::none;
using ::testing::Not;
using testing::OneOp;
using testing::tensor;

TensorMeta index(std::vector<std::int64_t> shape) { return tensor(std::move(shape), DType::kInt64); }

TEST(IndexingRules, an_index_takes_the_place_of_its_dim) {
  OneOp op("aten.index.Tensor");
  op.arg(tensor({4, 6, 8})).arg(Arg{Arg::List{none(), op.input(index({3, 5}))}}).output(tensor({4, 3, 5, 8}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R -> R", "S(0),R -> S(0)", "S(2),R -> S(3)", "R,S(0) -> S(1)",
                                           "R,S(1) -> S(2)", "P(sum),R -> P(sum)"));
}

TEST(IndexingRules, indices_that_are_apart_go_to_the_front) {
  OneOp op("aten.index.Tensor");
  op.arg(tensor({4, 6, 8})).arg(Arg{Arg::List{op.input(index({3})), none(), op.input(index({5, 1}))}});
  op.output(tensor({5, 3, 6}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R,R -> R", "S(1),R,R -> S(2)", "R,R,S(0) -> S(0)", "R,S(0),R -> S(1)",
                                           "P(sum),R,R -> P(sum)"));
}

TEST(IndexingRules, masks_depend_on_the_data) {
  OneOp op("aten.index.Tensor");
  op.arg(tensor({4, 6})).arg(Arg{Arg::List{op.input(tensor({4}, DType::kBool))}}).output(tensor({3, 6}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R -> R"));
}

// The key cache of another planner's bug: self and values must be cut alike.
TEST(IndexingRules, index_put_cuts_self_and_values_alike) {
  const auto put = [](bool accumulate) {
    OneOp op("aten.index_put.default");
    op.arg(tensor({16, 128, 64})).arg(Arg{Arg::List{op.input(index({5}))}}).arg(tensor({5, 128, 64}));
    op.arg(Arg{accumulate}).output(tensor({16, 128, 64}));
    return op.strategies();
  };
  EXPECT_THAT(put(false),
              ElementsAre("R,R,R -> R", "S(1),R,S(1) -> S(1)", "S(2),R,S(2) -> S(2)", "P(sum),R,P(sum) -> P(sum)"));
  EXPECT_THAT(put(true), Contains("P(sum),S(0),S(0) -> P(sum)"));
  EXPECT_THAT(put(true), Not(Contains("R,S(0),S(0) -> P(sum)"))) << "self would count once per device";
}

TEST(IndexingRules, gather_cuts_dims_of_equal_size) {
  OneOp op("aten.gather.default");
  op.arg(tensor({4, 6, 8})).arg(literal(std::int64_t{-1})).arg(index({4, 3, 5})).output(tensor({4, 3, 5}));
  EXPECT_THAT(op.strategies(), ElementsAre("R,R -> R", "S(0),S(0) -> S(0)", "R,S(2) -> S(2)", "P(sum),R -> P(sum)",
                                           "S(2),R -> P(sum) [gather_masked]"));
}

TEST(IndexingRules, scatter_reduce_is_pending_by_its_reduction) {
  const auto scatter = [](const std::string& reduce, bool include_self) {
    OneOp op("aten.scatter_reduce.two");
    op.arg(tensor({4, 6})).arg(literal(std::int64_t{0})).arg(index({3, 6})).arg(tensor({3, 6})).arg(Arg{reduce});
    op.kwarg("include_self", Arg{include_self}).output(tensor({4, 6}));
    return op.strategies();
  };
  EXPECT_THAT(scatter("amax", true), ElementsAre("R,R,R -> R", "S(1),S(1),S(1) -> S(1)", "R,S(0),S(0) -> P(max)"));
  EXPECT_THAT(scatter("amax", false), ElementsAre("R,R,R -> R", "S(1),S(1),S(1) -> S(1)"));
  EXPECT_THAT(scatter("sum", true), Contains("P(sum),S(0),S(0) -> P(sum)"));
  EXPECT_THAT(scatter("prod", true), ElementsAre("R,R,R -> R", "S(1),S(1),S(1) -> S(1)"));
}

TEST(IndexingRules, an_index_of_too_many_dims_names_the_node) {
  OneOp op("aten.index.Tensor");
  op.arg(tensor({4})).arg(Arg{Arg::List{op.input(index({3})), op.input(index({3}))}}).output(tensor({3}));
  EXPECT_THROW(op.list(), NodeError);
}

}  // namespace
}  // namespace autopar::costs
