#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/costs/rule_testing.h"

namespace autopar::costs {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ints;
using testing::literal;
using testing::none;
using ::testing::Not;
using testing::OneOp;
using testing::tensor;

std::vector<std::string> view(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) {
  OneOp op("aten.view.default");
  op.arg(tensor(from)).arg(ints(to)).output(tensor(to));
  return op.strategies();
}

TEST(ViewRules, merged_dims_are_cut_by_the_first_into_equal_pieces) {
  EXPECT_THAT(view({4, 6, 8}, {24, 8}), ElementsAre("R -> R", "S(0)=4 -> S(0)=4", "S(2) -> S(1)", "P(sum) -> P(sum)"));
  EXPECT_THAT(view({24, 8}, {4, 6, 8}), ElementsAre("R -> R", "S(0)=4 -> S(0)=4", "S(1) -> S(2)", "P(sum) -> P(sum)"));
}

TEST(ViewRules, heads_split_off_in_whole_heads) {
  EXPECT_THAT(view({4, 6, 96}, {4, 6, 12, 8}),
              ElementsAre("R -> R", "S(0) -> S(0)", "S(1) -> S(1)", "S(2)=12 -> S(2)=12", "P(sum) -> P(sum)"));
}

TEST(ViewRules, dims_of_size_one_come_and_go) {
  EXPECT_THAT(view({1, 6, 1, 8}, {6, 8, 1}), ElementsAre("R -> R", "S(1) -> S(0)", "S(3) -> S(1)", "P(sum) -> P(sum)"));
  EXPECT_THAT(view({1, 6, 8}, {48}), ElementsAre("R -> R", "S(1)=6 -> S(0)=6", "P(sum) -> P(sum)"));
}

// CASES.md row 12: [12, 8] S(1) is strewn over [16, 6]; only equal cuts of both first dims, 2 or 4, line up.
TEST(ViewRules, a_strewn_shard_is_not_carried) {
  EXPECT_THAT(view({12, 8}, {16, 6}), ElementsAre("R -> R", "S(0)=4 -> S(0)=4", "P(sum) -> P(sum)"));
  OneOp op("aten.view.default");
  op.arg(tensor({12, 8})).arg(ints({16, 6})).output(tensor({16, 6}));
  EXPECT_THAT(op.on_mesh({4}), ElementsAre("R -> R", "S(0) -> S(0)", "P(sum) -> P(sum)"));
  EXPECT_THAT(op.on_mesh({3}), ElementsAre("R -> R", "P(sum) -> P(sum)"));
}

TEST(ViewRules, equal_pieces_hold_over_all_mesh_dims_together) {
  OneOp op("aten.view.default");
  op.arg(tensor({4, 6})).arg(ints({24})).output(tensor({24}));
  EXPECT_THAT(op.on_mesh({2, 2}), Contains("S(0)S(0) -> S(0)S(0)"));
  EXPECT_THAT(op.on_mesh({4, 2}), Not(Contains("S(0)S(0) -> S(0)S(0)")));
}

TEST(ViewRules, transposes_take_shards_along) {
  OneOp t("aten.t.default");
  t.arg(tensor({4, 6})).output(tensor({6, 4}));
  EXPECT_THAT(t.strategies(), ElementsAre("R -> R", "S(1) -> S(0)", "S(0) -> S(1)", "P(sum) -> P(sum)"));
  OneOp transpose("aten.transpose.int");
  transpose.arg(tensor({4, 6, 8})).arg(literal(std::int64_t{-2})).arg(literal(std::int64_t{-1}));
  transpose.output(tensor({4, 8, 6}));
  EXPECT_THAT(transpose.strategies(),
              ElementsAre("R -> R", "S(0) -> S(0)", "S(2) -> S(1)", "S(1) -> S(2)", "P(sum) -> P(sum)"));
  OneOp permute("aten.permute.default");
  permute.arg(tensor({4, 6, 8})).arg(ints({-1, 0, 1})).output(tensor({8, 4, 6}));
  EXPECT_THAT(permute.strategies(),
              ElementsAre("R -> R", "S(2) -> S(0)", "S(0) -> S(1)", "S(1) -> S(2)", "P(sum) -> P(sum)"));
}

TEST(ViewRules, expanded_dims_are_made_in_pieces) {
  OneOp op("aten.expand.default");
  op.arg(tensor({4, 1})).arg(ints({3, -1, 8})).output(tensor({3, 4, 8}));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "R -> S(0)", "S(0) -> S(1)", "R -> S(2)", "P(sum) -> P(sum)"));
}

TEST(ViewRules, a_sliced_dim_stays_whole_unless_the_slice_covers_it) {
  OneOp part("aten.slice.Tensor");
  part.arg(tensor({4, 8})).arg(literal(std::int64_t{-1})).arg(literal(std::int64_t{4}));
  part.arg(literal(std::numeric_limits<std::int64_t>::max())).output(tensor({4, 4}));
  EXPECT_THAT(part.strategies(), ElementsAre("R -> R", "S(0) -> S(0)", "P(sum) -> P(sum)"));
  OneOp all("aten.slice.Tensor");
  all.arg(tensor({4, 8})).arg(literal(std::int64_t{1})).arg(literal(std::int64_t{0}));
  all.arg(literal(std::numeric_limits<std::int64_t>::max())).output(tensor({4, 8}));
  EXPECT_THAT(all.strategies(), Contains("S(1) -> S(1)"));
  OneOp grad("aten.slice_backward.default");
  grad.arg(tensor({4, 4})).arg(ints({4, 8})).arg(literal(std::int64_t{1})).arg(literal(std::int64_t{4}));
  grad.arg(literal(std::int64_t{8})).arg(literal(std::int64_t{1})).output(tensor({4, 8}));
  EXPECT_THAT(grad.strategies(), ElementsAre("R -> R", "S(0) -> S(0)", "P(sum) -> P(sum)"));
}

TEST(ViewRules, every_other_element_is_taken_from_each_piece) {
  const auto slice = [](std::int64_t start, std::int64_t step, std::int64_t length) {
    OneOp op("aten.slice.Tensor");
    op.arg(tensor({12})).arg(literal(std::int64_t{0})).arg(literal(start));
    op.arg(literal(std::numeric_limits<std::int64_t>::max())).arg(literal(step)).output(tensor({length}));
    return op.strategies();
  };
  EXPECT_THAT(slice(1, 2, 6), Contains("S(0)=6 -> S(0)=6"));
  EXPECT_THAT(slice(2, 2, 5), Each(Not(HasSubstr("S(0)"))));
  EXPECT_THAT(slice(-11, 2, 6), Each(Not(HasSubstr("S(0)"))));  // in a piece, -11 is before its start
}

TEST(ViewRules, bits_of_another_size_are_cut_in_whole_elements) {
  OneOp op("aten.view.dtype");
  op.arg(tensor({4, 6}, DType::kFloat64)).arg(Arg{Arg::Name{"float32"}}).output(tensor({4, 12}));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(0) -> S(0)", "S(1)=6 -> S(1)=6"));
}

TEST(ViewRules, selected_dims_go_and_come_back) {
  OneOp select("aten.select.int");
  select.arg(tensor({4, 6, 8})).arg(literal(std::int64_t{1})).arg(literal(std::int64_t{0})).output(tensor({4, 8}));
  EXPECT_THAT(select.strategies(), ElementsAre("R -> R", "S(0) -> S(0)", "S(2) -> S(1)", "P(sum) -> P(sum)"));
  OneOp grad("aten.select_backward.default");
  grad.arg(tensor({4, 8})).arg(ints({4, 6, 8})).arg(literal(std::int64_t{-2})).arg(literal(std::int64_t{0}));
  grad.output(tensor({4, 6, 8}));
  EXPECT_THAT(grad.strategies(), ElementsAre("R -> R", "S(0) -> S(0)", "S(1) -> S(2)", "P(sum) -> P(sum)"));
}

TEST(ViewRules, all_outputs_of_a_split_are_cut_alike) {
  OneOp op("aten.split_with_sizes.default");
  op.arg(tensor({4, 8})).arg(ints({3, 5})).arg(literal(std::int64_t{-1}));
  op.output(tensor({4, 3})).output(tensor({4, 5}));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R,R", "S(0) -> S(0),S(0)", "P(sum) -> P(sum),P(sum)"));
}

TEST(ViewRules, squeeze_must_not_see_a_local_one) {
  OneOp named("aten.squeeze.dim");
  named.arg(tensor({4, 1, 6})).arg(literal(std::int64_t{1})).output(tensor({4, 6}));
  EXPECT_THAT(named.strategies(), ElementsAre("R -> R", "S(0) -> S(0)", "S(2) -> S(1)", "P(sum) -> P(sum)"));
  OneOp any("aten.squeeze.default");
  any.arg(tensor({4, 1, 7})).output(tensor({4, 7}));
  EXPECT_THAT(any.on_mesh({2}), ElementsAre("R -> R", "S(0) -> S(0)", "P(sum) -> P(sum)"));
  EXPECT_THAT(any.on_mesh({4}), ElementsAre("R -> R", "P(sum) -> P(sum)"));
}

TEST(ViewRules, a_constraint_passes_on_what_it_gets) {
  OneOp op("autopar.constrain.default");
  op.arg(tensor({4, 6})).output(tensor({4, 6}));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R", "S(0) -> S(0)", "S(1) -> S(1)", "P(sum) -> P(sum)"));
}

TEST(ViewRules, strides_hold_for_the_whole_storage_only) {
  OneOp op("aten.as_strided.default");
  op.arg(tensor({4, 8})).arg(ints({4, 4})).arg(ints({8, 2})).output(tensor({4, 4}));
  EXPECT_THAT(op.strategies(), ElementsAre("R -> R"));
}

}  // namespace
}  // namespace autopar::costs
