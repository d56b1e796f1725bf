#include "costs/fusion.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "costs/compute.h"

namespace autopar::costs {
namespace {

constexpr std::int64_t kTokens = 8192;
constexpr std::int64_t kHidden = 4096;
constexpr std::int64_t kVocabulary = 128256;
constexpr DType kHalf = DType::kBFloat16;
constexpr DType kFloat = DType::kFloat32;

/// Of a device that moves one byte per picosecond and launches for nothing.
Cluster byte_counter() {
  Cluster cluster;
  cluster.device.vector_flops = 1e18;
  cluster.device.memory_bandwidth = 1e12;
  return cluster;
}

class Step {
 public:
  ValueRef input(std::vector<std::int64_t> shape, DType dtype = kHalf, Role role = Role::kInput) {
    Node node;
    node.op = "placeholder";
    node.role = role;
    node.outputs.emplace_back(TensorMeta{std::move(shape), {}, dtype});
    return add(std::move(node));
  }

  /// Tensors first, then literals.
  ValueRef op(const std::string& name, const std::vector<ValueRef>& inputs, std::vector<std::int64_t> shape,
              DType dtype = kHalf, const std::vector<Arg>& more = {}) {
    Node node;
    node.op = "aten." + name;
    for (const ValueRef input : inputs) node.args.emplace_back().value = input;
    node.args.insert(node.args.end(), more.begin(), more.end());
    node.phase = phase;
    node.outputs.emplace_back(TensorMeta{std::move(shape), {}, dtype});
    collect_inputs(node);
    return add(std::move(node));
  }

  /// [tokens, in] x [in, out]
  ValueRef mm(ValueRef tensor, std::int64_t out) {
    const std::int64_t in = graph.meta(tensor).shape[1];
    return op("mm.default", {tensor, input({in, out}, kHalf, Role::kParameter)}, {kTokens, out});
  }

  void keep(ValueRef value) { graph.outputs.push_back({value}); }

  Fusion fusion(ValueRef value) const { return graph.nodes[static_cast<std::size_t>(value.node)].fusion; }

  /// What all but matmuls move on one device of `mesh`, all replicated.
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (graph.nodes[i].op != "aten.mm.default") sum += bytes(static_cast<std::int32_t>(i), Placement::replicate());
    }
    return sum;
  }

  std::int64_t bytes(std::int32_t index, Placement output, LocalProgram program = {}) const {
    const Node& node = graph.nodes[static_cast<std::size_t>(index)];
    Strategy strategy{std::vector<Placements>(node.inputs.size()), std::vector<Placements>(node.outputs.size())};
    for (Placements& placements : strategy.outputs) placements[0] = output;
    strategy.programs[0] = program;
    return compute_ps(graph, node, strategy, Mesh{{8}, {"d"}}, byte_counter());
  }

  Graph graph;
  Phase phase = Phase::kForward;

 private:
  ValueRef add(Node node) {
    graph.nodes.push_back(std::move(node));
    return {static_cast<std::int32_t>(graph.nodes.size()) - 1, 0};
  }
};

Arg dims(std::vector<std::int64_t> list) {
  Arg::List items;
  for (const std::int64_t dim : list) items.emplace_back().value = dim;
  return {items};
}

struct Norm {
  ValueRef in_float;
  ValueRef scale;
  ValueRef normed;
  ValueRef out;
};

/// As Llama's RMSNorm computes it: in float32, of bfloat16.
Norm rms_norm(Step& step, ValueRef x) {
  const std::vector<std::int64_t> whole = {kTokens, kHidden};
  const std::vector<std::int64_t> row = {kTokens, 1};
  const ValueRef weight = step.input({kHidden}, kHalf, Role::kParameter);
  Norm norm;
  norm.in_float = step.op("_to_copy.default", {x}, whole, kFloat);
  const ValueRef square = step.op("pow.Tensor_Scalar", {norm.in_float}, whole, kFloat, {{std::int64_t{2}}});
  const ValueRef mean = step.op("mean.dim", {square}, row, kFloat, {dims({-1}), {true}});
  const ValueRef more = step.op("add.Tensor", {mean}, row, kFloat, {{1e-6}});
  norm.scale = step.op("rsqrt.default", {more}, row, kFloat);
  const ValueRef scaled = step.op("mul.Tensor", {norm.in_float, norm.scale}, whole, kFloat);
  norm.normed = step.op("_to_copy.default", {scaled}, whole);
  norm.out = step.op("mul.Tensor", {norm.normed, weight}, whole);
  return norm;
}

constexpr std::int64_t kElements = kTokens * kHidden;

TEST(FusionTest, rms_norm_reads_its_input_and_writes_its_output) {
  Step step;
  const ValueRef x = step.input({kTokens, kHidden});
  step.keep(step.mm(rms_norm(step, x).out, kHidden));
  // Casts 2+4 and 4+2, square and scaling 4+4 each, mean 4, weight 2+2; per row the mean 4, and 8 each for adding,
  // rsqrt, and 4 for scaling; the weight itself.
  EXPECT_EQ(step.bytes(), 36 * kElements + 24 * kTokens + 2 * kHidden);
  fuse(step.graph);
  EXPECT_EQ(step.bytes(), (2 + 2) * kElements + 2 * kHidden);
}

TEST(FusionTest, what_the_backward_reads_is_written) {
  Step step;
  const ValueRef x = step.input({kTokens, kHidden});
  const Norm norm = rms_norm(step, x);
  const ValueRef out = step.mm(norm.out, kHidden);
  step.keep(out);
  step.phase = Phase::kBackward;
  const ValueRef product =
      step.op("mul.Tensor", {step.input({kTokens, kHidden}, kFloat), norm.in_float}, {kTokens, kHidden}, kFloat);
  step.keep(step.op("mul.Tensor", {product, norm.scale}, {kTokens, kHidden}, kFloat));
  fuse(step.graph);
  EXPECT_EQ(step.fusion(norm.in_float).is_written[0], 1);
  EXPECT_EQ(step.fusion(norm.in_float).is_written_again[0], 0) << "run again, it would stay in the kernel";
  EXPECT_EQ(step.fusion(norm.out).is_written_again[0], 1) << "a matmul reads it";
  const std::int64_t forward = (2 + 2 + 4) * kElements + 4 * kTokens + 2 * kHidden;
  const std::int64_t backward = (4 + 4 + 4) * kElements + 4 * kTokens;
  EXPECT_EQ(step.bytes(), forward + backward);
}

TEST(FusionTest, swiglu_forward_and_backward) {
  constexpr std::int64_t kInner = 14336;
  const std::vector<std::int64_t> whole = {kTokens, kInner};
  Step step;
  const ValueRef x = step.input({kTokens, kHidden});
  const ValueRef gate = step.mm(x, kInner);
  const ValueRef activated = step.op("silu.default", {gate}, whole);
  const ValueRef up = step.mm(x, kInner);
  step.keep(step.mm(step.op("mul.Tensor", {activated, up}, whole), kHidden));
  Step forward = step;
  EXPECT_EQ(forward.bytes(), (4 + 6) * kTokens * kInner);
  fuse(forward.graph);
  EXPECT_EQ(forward.bytes(), 6 * kTokens * kInner);

  step.phase = Phase::kBackward;
  const ValueRef gradient = step.mm(step.input({kTokens, kHidden}), kInner);
  const ValueRef of_up = step.op("mul.Tensor", {gradient, activated}, whole);
  const ValueRef of_activated = step.op("mul.Tensor", {gradient, up}, whole);
  const ValueRef of_gate = step.op("silu_backward.default", {of_activated, gate}, whole);
  step.keep(step.mm(of_up, kHidden));
  step.keep(step.mm(of_gate, kHidden));
  fuse(step.graph);
  // silu is saved; both gradients come from one kernel that reads the incoming one once.
  EXPECT_EQ(step.bytes(), (8 + 12) * kTokens * kInner);
}

TEST(FusionTest, cross_entropy) {
  const std::vector<std::int64_t> whole = {kTokens, kVocabulary};
  constexpr std::int64_t kLogits = kTokens * kVocabulary;
  Step step;
  const ValueRef logits = step.mm(step.input({kTokens, kHidden}), kVocabulary);
  const ValueRef target = step.input({kTokens}, DType::kInt64, Role::kTarget);
  const ValueRef in_float = step.op("_to_copy.default", {logits}, whole, kFloat);
  const ValueRef logs = step.op("_log_softmax.default", {in_float}, whole, kFloat, {{std::int64_t{1}}, {false}});
  const ValueRef loss = step.op("nll_loss_forward.default", {logs, target}, {}, kFloat);
  step.keep(loss);
  step.phase = Phase::kBackward;
  const ValueRef of_logs = step.op("nll_loss_backward.default", {loss, logs, target}, whole, kFloat);
  const ValueRef of_float =
      step.op("_log_softmax_backward_data.default", {of_logs, logs}, whole, kFloat, {{std::int64_t{1}}});
  step.keep(step.mm(step.op("_to_copy.default", {of_float}, whole), kHidden));
  // Casts 2+4 and 4+2, log_softmax 4+4, its backward 4+4+4, the gradient of the look-up 4.
  const std::int64_t small = 8 * kTokens + 8;  // targets, and the loss written and taken for the logarithms it reads
  EXPECT_EQ(step.bytes(), 36 * kLogits + small);
  fuse(step.graph);
  EXPECT_EQ(step.bytes(), (2 + 4) * kLogits + (4 + 2) * kLogits + small);
}

// Inductor makes no code for complex numbers.
TEST(FusionTest, complex_ops_are_kernels_of_their_own) {
  const std::vector<std::int64_t> whole = {kTokens, kHidden};
  Step step;
  const ValueRef x = step.op("neg.default", {step.input(whole, DType::kComplex64)}, whole, DType::kComplex64);
  step.keep(step.op("mul.Tensor", {x, step.input(whole, DType::kComplex64)}, whole, DType::kComplex64));
  fuse(step.graph);
  EXPECT_EQ(step.bytes(), (16 + 24) * kElements);
}

TEST(FusionTest, what_is_not_compiled_is_not_fused) {
  const std::vector<std::int64_t> whole = {kTokens, kHidden};
  Step step;
  const ValueRef first = step.op("neg.default", {step.input(whole)}, whole);
  const ValueRef second = step.op("neg.default", {first}, whole);
  step.keep(step.op("neg.default", {second}, whole));
  std::vector<char> compiled(step.graph.nodes.size(), 1);
  compiled.back() = 0;
  fuse(step.graph, compiled);
  EXPECT_EQ(step.bytes(), (2 + 2 + 4) * kElements);
}

// The gradient of a norm's weight sums over tokens: another order of loops than the rest of the norm's backward.
TEST(FusionTest, a_sum_over_rows_takes_along_only_what_nothing_else_reads) {
  const std::vector<std::int64_t> whole = {kTokens, kHidden};
  Step step;
  const ValueRef gradient = step.op("neg.default", {step.input(whole)}, whole);
  const ValueRef normed = step.input(whole);
  const ValueRef product = step.op("mul.Tensor", {gradient, normed}, whole);
  const ValueRef of_weight = step.op("sum.dim_IntList", {product}, {kHidden}, kHalf, {dims({0})});
  const ValueRef per_row = step.op("sum.dim_IntList", {gradient}, {kTokens, 1}, kHalf, {dims({1}), {true}});
  step.keep(of_weight);
  step.keep(step.op("mul.Tensor", {gradient, per_row}, whole));
  fuse(step.graph);
  EXPECT_EQ(step.fusion(product).is_written[0], 0);
  EXPECT_EQ(step.fusion(gradient).is_written[0], 1);
  EXPECT_EQ(step.fusion(per_row).is_written[0], 0);
  EXPECT_EQ(step.bytes(), (2 + 2 + 2) * kElements + (2 + 2) * kElements + 2 * kHidden);
}

// Inductor moves 10: it casts x in each of the two kernels. Here the cast has one of its own, 2+4.
TEST(FusionTest, what_two_kernels_of_different_levels_read_is_made_apart) {
  const std::vector<std::int64_t> whole = {kTokens, kHidden};
  Step step;
  const ValueRef gradient = step.mm(step.input(whole), kHidden);
  const ValueRef x = step.op("_to_copy.default", {step.input(whole)}, whole, kFloat);
  const ValueRef scale = step.input({kTokens, 1}, kFloat);
  const ValueRef scaled = step.op("mul.Tensor", {x, scale}, whole, kFloat);
  const ValueRef normed = step.op("_to_copy.default", {scaled}, whole);
  const ValueRef product = step.op("mul.Tensor", {gradient, normed}, whole);
  step.keep(step.op("sum.dim_IntList", {product}, {kHidden}, kHalf, {dims({0})}));
  const ValueRef of_normed = step.op("_to_copy.default", {gradient}, whole, kFloat);
  const ValueRef of_scale = step.op("mul.Tensor", {of_normed, x}, whole, kFloat);
  const ValueRef sum = step.op("sum.dim_IntList", {of_scale}, {kTokens, 1}, kFloat, {dims({1}), {true}});
  const ValueRef more = step.op("mul.Tensor", {sum, x}, whole, kFloat);
  const ValueRef less = step.op("mul.Tensor", {of_normed, scale}, whole, kFloat);
  const ValueRef both = step.op("add.Tensor", {less, more}, whole, kFloat);
  step.keep(step.op("_to_copy.default", {both}, whole));
  fuse(step.graph);
  EXPECT_EQ(step.bytes(), (6 + (2 + 4 + 2) + (2 + 4)) * kElements + 2 * 4 * kTokens + 2 * kHidden);
}

// x + f(x): the sum would have to run before the matmul that it waits for.
TEST(FusionTest, a_residual_does_not_close_a_circle) {
  Step step;
  const ValueRef x = step.op("neg.default", {step.input({kTokens, kHidden})}, {kTokens, kHidden});
  const ValueRef inner = step.op("silu.default", {x}, {kTokens, kHidden});
  const ValueRef sum = step.op("add.Tensor", {x, step.mm(inner, kHidden)}, {kTokens, kHidden});
  step.keep(sum);
  fuse(step.graph);
  EXPECT_EQ(step.fusion(x).is_written[0], 1);
  EXPECT_TRUE(step.fusion(inner).is_fused);
  EXPECT_FALSE(step.fusion(sum).is_fused);
  EXPECT_EQ(step.bytes(), (2 + 2 + 2) * kElements + 6 * kElements);
}

TEST(FusionTest, views_are_looked_through) {
  Step step;
  const ValueRef x = step.op("neg.default", {step.input({kTokens, kHidden})}, {kTokens, kHidden});
  const ValueRef view = step.op("view.default", {x}, {kTokens, 32, 128});
  const ValueRef swapped = step.op("transpose.int", {view}, {32, kTokens, 128});
  step.keep(step.op("silu.default", {swapped}, {32, kTokens, 128}));
  fuse(step.graph);
  EXPECT_EQ(step.bytes(), (2 + 2) * kElements);
}

TEST(FusionTest, a_table_is_in_memory_and_its_rows_are_not) {
  Step step;
  const ValueRef table = step.op("neg.default", {step.input({kTokens, kHidden})}, {kTokens, kHidden});
  const ValueRef rows = step.op("embedding.default", {table, step.input({kTokens}, DType::kInt64)}, {kTokens, kHidden});
  step.keep(step.op("silu.default", {rows}, {kTokens, kHidden}));
  fuse(step.graph);
  EXPECT_EQ(step.bytes(), (2 + 2) * kElements + (2 + 2) * kElements + 8 * kTokens);
}

TEST(FusionTest, one_launch_per_kernel) {
  Step step;
  const ValueRef x = step.input({kTokens, kHidden});
  const Norm norm = rms_norm(step, x);
  step.keep(norm.out);
  fuse(step.graph);
  int launches = 0;
  for (const Node& node : step.graph.nodes) launches += node.fusion.starts_kernel ? 1 : 0;
  EXPECT_EQ(launches, 1);
  EXPECT_TRUE(step.fusion(norm.in_float).starts_kernel);
}

TEST(FusionTest, a_pending_sum_is_written_and_read_before_it_goes_on) {
  Step step;
  const ValueRef x = step.mm(step.input({kTokens, kHidden}), kHidden);
  const ValueRef sum = step.op("add.Tensor", {x, step.mm(step.input({kTokens, kHidden}), kHidden)}, {kTokens, kHidden});
  step.keep(step.op("silu.default", {sum}, {kTokens, kHidden}));
  fuse(step.graph);
  EXPECT_EQ(step.bytes(sum.node, Placement::replicate()), (2 + 2) * kElements);
  EXPECT_EQ(step.bytes(sum.node, Placement::partial()), (2 + 2 + 2 + 2) * kElements);
}

TEST(FusionTest, a_program_that_reduces_is_not_fused) {
  Step step;
  const ValueRef x = step.op("neg.default", {step.input({kTokens, kHidden})}, {kTokens, kHidden});
  const ValueRef softmax = step.op("_softmax.default", {x}, {kTokens, kHidden}, kHalf, {{std::int64_t{1}}, {false}});
  step.keep(softmax);
  fuse(step.graph);
  EXPECT_EQ(step.bytes(softmax.node, Placement::replicate()), 2 * kElements);
  EXPECT_EQ(step.bytes(softmax.node, Placement::replicate(), {"softmax", 2, 0, 1}), (2 + 2) * kElements);
}

TEST(FusionTest, matmuls_and_unknown_ops_stay_alone) {
  Step step;
  const ValueRef x = step.input({kTokens, kHidden});
  const ValueRef unknown =
      step.op("mystery.default", {step.op("neg.default", {x}, {kTokens, kHidden})}, {kTokens, kHidden});
  step.keep(step.mm(unknown, kHidden));
  fuse(step.graph);
  for (const Node& node : step.graph.nodes) EXPECT_FALSE(node.fusion.is_fused) << node.op;
}

}  // namespace
}  // namespace autopar::costs
