#include <cstddef>
#include <initializer_list>
#include <optional>
#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Element by element, with broadcasting. Every dim of the output may be cut, in pieces of any size, with the inputs
/// cut alike. A pending sum passes through the inputs in which an op is linear: f(a + b) = f(a) + f(b), so neither a
/// constant added nor another tensor that is not itself a pending sum.
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;

/// The split when output dim `dim` is cut. An empty tensor stands for one that the device's kernel does not need.
Split aligned_shard(const TensorMeta& tensor, const TensorMeta& output, std::int64_t dim) {
  return tensor.numel() == 0 ? Split::replicate() : broadcast_shard(tensor, output, dim);
}

bool broadcasts_to(const TensorMeta& tensor, const TensorMeta& output) {
  const std::int64_t missing = output.rank() - tensor.rank();
  for (std::int64_t dim = 0; missing >= 0 && dim < tensor.rank(); ++dim) {
    if (size_of(tensor, dim) != 1 && size_of(tensor, dim) != size_of(output, dim + missing)) return false;
  }
  return missing >= 0;
}

StrategyList with_shards(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const TensorMeta& output = output_meta(node);
  for (const ValueRef& input : node.inputs) {
    const TensorMeta& tensor = graph.meta(input);
    require(tensor.numel() == 0 || broadcasts_to(tensor, output), node, "an input cannot be broadcast to the output");
  }
  for (std::int64_t dim = 0; dim < output.rank(); ++dim) {
    std::vector<Split> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      inputs.push_back(aligned_shard(input_meta(graph, node, i), output, dim));
    }
    std::vector<Split> outputs;
    for (const auto& other : node.outputs) {
      outputs.push_back(other ? aligned_shard(*other, output, dim) : Split::replicate());
    }
    list.add(inputs, outputs);
  }
  return list;
}

/// Adds the strategy in which `pending`, inputs by index, and the outputs are pending sums.
void add_partial(StrategyList& list, const Node& node, std::initializer_list<std::size_t> pending) {
  std::vector<Split> inputs = list.replicated_inputs();
  for (std::size_t i : pending) {
    require(i < inputs.size(), node, "a tensor argument is missing");
    inputs[i] = Split::partial();
  }
  list.add(inputs, Split::partial());
}

Strategies nonlinear(const Graph& graph, const Node& node) { return with_shards(graph, node).take(); }

/// In the first tensor, with all others given: gradients through an activation, products with a literal.
Strategies linear_in_first(const Graph& graph, const Node& node) {
  StrategyList list = with_shards(graph, node);
  add_partial(list, node, {0});
  return list.take();
}

Strategies cast(const Graph& graph, const Node& node) {
  StrategyList list = with_shards(graph, node);
  if (cast_is_linear(input_meta(graph, node, 0).dtype, output_meta(node).dtype)) add_partial(list, node, {0});
  return list.take();
}

/// Sums, differences and interpolations of two tensors. With a literal in the second one's place they are not linear:
/// every device would add it.
Strategies linear_in_pair(const Graph& graph, const Node& node) {
  StrategyList list = with_shards(graph, node);
  if (node.inputs.size() >= 2) add_partial(list, node, {0, 1});
  return list.take();
}

/// Linear in each factor, not in both at once.
Strategies product(const Graph& graph, const Node& node) {
  StrategyList list = with_shards(graph, node);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) add_partial(list, node, {i});
  return list.take();
}

/// A literal dividend takes no place among the inputs; then the only one is the divisor.
Strategies quotient(const Graph& graph, const Node& node) {
  StrategyList list = with_shards(graph, node);
  if (input_arg(node, 0, "self") == std::size_t{0}) add_partial(list, node, {0});
  return list.take();
}

/// base + value · a · b
Strategies addcmul(const Graph& graph, const Node& node) {
  StrategyList list = with_shards(graph, node);
  add_partial(list, node, {0, 1});
  add_partial(list, node, {0, 2});
  return list.take();
}

/// where(condition, self, other): linear in both choices together; a literal choice must be 0.
Strategies where(const Graph& graph, const Node& node) {
  StrategyList list = with_shards(graph, node);
  const std::optional<double> self = number_arg(node, 1, "self");
  const std::optional<double> other = number_arg(node, 2, "other");
  if (node.inputs.size() == 3) add_partial(list, node, {1, 2});
  if (node.inputs.size() == 2 && self.value_or(0) == 0 && other.value_or(0) == 0) add_partial(list, node, {1});
  return list.take();
}

/// masked_fill(self, mask, value)
Strategies masked_fill(const Graph& graph, const Node& node) {
  StrategyList list = with_shards(graph, node);
  if (node.inputs.size() == 3) add_partial(list, node, {0, 2});
  if (number_arg(node, 2, "value") == 0.0) add_partial(list, node, {0});
  return list.take();
}

/// The first power is the tensor itself; autograd writes x^1 for the gradient of x².
Strategies power(const Graph& graph, const Node& node) {
  StrategyList list = with_shards(graph, node);
  if (number_arg(node, 1, "exponent") == 1.0) add_partial(list, node, {0});
  return list.take();
}

/// copy(self, src), fill(self, value): only self's shape and dtype matter.
Strategies copy(const Graph& graph, const Node& node) {
  StrategyList list = with_shards(graph, node);
  list.add({Split::partial(), Split::replicate()}, Split::replicate());
  if (cast_is_linear(input_meta(graph, node, 1).dtype, output_meta(node).dtype)) {
    add_partial(list, node, {1});
    add_partial(list, node, {0, 1});
  }
  return list.take();
}

constexpr RuleEntry kRules[] = {
    // Linear in their only tensor.
    {"aten.clone.default", linear_in_first},
    {"aten.conj_physical.default", linear_in_first},
    {"aten._conj.default", linear_in_first},
    {"aten._conj_physical.default", linear_in_first},
    {"aten._neg_view.default", linear_in_first},
    {"aten.contiguous.default", linear_in_first},
    {"aten.deg2rad.default", linear_in_first},
    {"aten.div.Scalar", linear_in_first},
    {"aten.imag.default", linear_in_first},
    {"aten.lift_fresh_copy.default", linear_in_first},
    {"aten.mul.Scalar", linear_in_first},
    {"aten.neg.default", linear_in_first},
    {"aten.positive.default", linear_in_first},
    {"aten.rad2deg.default", linear_in_first},
    {"aten.real.default", linear_in_first},
    {"aten._to_copy.default", cast},
    {"prims.convert_element_type.default", cast},
    // Linear in several.
    {"aten.add.Tensor", linear_in_pair},
    {"aten.complex.default", linear_in_pair},
    {"aten.lerp.Scalar", linear_in_pair},
    {"aten.lerp.Tensor", linear_in_pair},
    {"aten.rsub.Tensor", linear_in_pair},
    {"aten.sub.Tensor", linear_in_pair},
    {"aten.addcdiv.default", linear_in_pair},
    {"aten.addcmul.default", addcmul},
    {"aten.copy.default", copy},
    {"aten.div.Tensor", quotient},
    {"aten.fill.Tensor", copy},
    {"aten.masked_fill.Scalar", masked_fill},
    {"aten.masked_fill.Tensor", masked_fill},
    {"aten.mul.Tensor", product},
    {"aten.polar.default", linear_in_first},
    {"aten.pow.Tensor_Scalar", power},
    {"aten.true_divide.Tensor", quotient},
    {"aten.where.self", where},
    {"aten.where.Scalar", where},
    {"aten.where.ScalarOther", where},
    {"aten.where.ScalarSelf", where},
    // Gradients: linear in the incoming one.
    {"aten._prelu_kernel_backward.default", linear_in_first},
    {"aten.elu_backward.default", linear_in_first},
    {"aten.gelu_backward.default", linear_in_first},
    {"aten.hardshrink_backward.default", linear_in_first},
    {"aten.hardsigmoid_backward.default", linear_in_first},
    {"aten.hardswish_backward.default", linear_in_first},
    {"aten.hardtanh_backward.default", linear_in_first},
    {"aten.leaky_relu_backward.default", linear_in_first},
    {"aten.log_sigmoid_backward.default", linear_in_first},
    {"aten.logit_backward.default", linear_in_first},
    {"aten.mish_backward.default", linear_in_first},
    {"aten.sigmoid_backward.default", linear_in_first},
    {"aten.silu_backward.default", linear_in_first},
    {"aten.softplus_backward.default", linear_in_first},
    {"aten.softshrink_backward.default", linear_in_first},
    {"aten.tanh_backward.default", linear_in_first},
    {"aten.threshold_backward.default", linear_in_first},
    // Functions of one tensor.
    {"aten.abs.default", nonlinear},
    {"aten.acos.default", nonlinear},
    {"aten.acosh.default", nonlinear},
    {"aten.add.Scalar", nonlinear},
    {"aten.angle.default", nonlinear},
    {"aten.asin.default", nonlinear},
    {"aten.asinh.default", nonlinear},
    {"aten.atan.default", nonlinear},
    {"aten.atanh.default", nonlinear},
    {"aten.bitwise_not.default", nonlinear},
    {"aten.ceil.default", nonlinear},
    {"aten.celu.default", nonlinear},
    {"aten.clamp.default", nonlinear},
    {"aten.clamp_max.default", nonlinear},
    {"aten.clamp_min.default", nonlinear},
    {"aten.cos.default", nonlinear},
    {"aten.cosh.default", nonlinear},
    {"aten.digamma.default", nonlinear},
    {"aten.elu.default", nonlinear},
    {"aten.erf.default", nonlinear},
    {"aten.erfc.default", nonlinear},
    {"aten.erfinv.default", nonlinear},
    {"aten.exp.default", nonlinear},
    {"aten.exp2.default", nonlinear},
    {"aten.expm1.default", nonlinear},
    {"aten.floor.default", nonlinear},
    {"aten.frac.default", nonlinear},
    {"aten.gelu.default", nonlinear},
    {"aten.hardshrink.default", nonlinear},
    {"aten.hardsigmoid.default", nonlinear},
    {"aten.hardswish.default", nonlinear},
    {"aten.hardtanh.default", nonlinear},
    {"aten.i0.default", nonlinear},
    {"aten.isfinite.default", nonlinear},
    {"aten.isinf.default", nonlinear},
    {"aten.isnan.default", nonlinear},
    {"aten.isneginf.default", nonlinear},
    {"aten.isposinf.default", nonlinear},
    {"aten.leaky_relu.default", nonlinear},
    {"aten.lgamma.default", nonlinear},
    {"aten.log.default", nonlinear},
    {"aten.log10.default", nonlinear},
    {"aten.log1p.default", nonlinear},
    {"aten.log2.default", nonlinear},
    {"aten.log_sigmoid_forward.default", nonlinear},
    {"aten.logical_not.default", nonlinear},
    {"aten.logit.default", nonlinear},
    {"aten.mish.default", nonlinear},
    {"aten.nan_to_num.default", nonlinear},
    {"aten.polygamma.default", nonlinear},
    {"aten.reciprocal.default", nonlinear},
    {"aten.relu.default", nonlinear},
    {"aten.relu6.default", nonlinear},
    {"aten.round.decimals", nonlinear},
    {"aten.round.default", nonlinear},
    {"aten.rsqrt.default", nonlinear},
    {"aten.rsub.Scalar", nonlinear},
    {"aten.selu.default", nonlinear},
    {"aten.sgn.default", nonlinear},
    {"aten.sigmoid.default", nonlinear},
    {"aten.sign.default", nonlinear},
    {"aten.signbit.default", nonlinear},
    {"aten.silu.default", nonlinear},
    {"aten.sin.default", nonlinear},
    {"aten.sinc.default", nonlinear},
    {"aten.sinh.default", nonlinear},
    {"aten.softplus.default", nonlinear},
    {"aten.softshrink.default", nonlinear},
    {"aten.special_entr.default", nonlinear},
    {"aten.special_erfcx.default", nonlinear},
    {"aten.special_i0e.default", nonlinear},
    {"aten.special_i1.default", nonlinear},
    {"aten.special_i1e.default", nonlinear},
    {"aten.special_log_ndtr.default", nonlinear},
    {"aten.special_ndtri.default", nonlinear},
    {"aten.sqrt.default", nonlinear},
    {"aten.square.default", nonlinear},
    {"aten.sub.Scalar", nonlinear},
    {"aten.tan.default", nonlinear},
    {"aten.tanh.default", nonlinear},
    {"aten.threshold.default", nonlinear},
    {"aten.trunc.default", nonlinear},
    // Functions of several tensors, and comparisons.
    {"aten._prelu_kernel.default", nonlinear},
    {"aten.atan2.default", nonlinear},
    {"aten.bitwise_and.Scalar", nonlinear},
    {"aten.bitwise_and.Tensor", nonlinear},
    {"aten.bitwise_left_shift.Tensor", nonlinear},
    {"aten.bitwise_left_shift.Tensor_Scalar", nonlinear},
    {"aten.bitwise_or.Scalar", nonlinear},
    {"aten.bitwise_or.Tensor", nonlinear},
    {"aten.bitwise_right_shift.Tensor", nonlinear},
    {"aten.bitwise_right_shift.Tensor_Scalar", nonlinear},
    {"aten.bitwise_xor.Scalar", nonlinear},
    {"aten.bitwise_xor.Tensor", nonlinear},
    {"aten.clamp.Tensor", nonlinear},
    {"aten.clamp_max.Tensor", nonlinear},
    {"aten.clamp_min.Tensor", nonlinear},
    {"aten.copysign.Scalar", nonlinear},
    {"aten.copysign.Tensor", nonlinear},
    {"aten.div.Scalar_mode", nonlinear},
    {"aten.div.Tensor_mode", nonlinear},
    {"aten.eq.Scalar", nonlinear},
    {"aten.eq.Tensor", nonlinear},
    {"aten.floor_divide.Scalar", nonlinear},
    {"aten.floor_divide.default", nonlinear},
    {"aten.fmax.default", nonlinear},
    {"aten.fmin.default", nonlinear},
    {"aten.fmod.Scalar", nonlinear},
    {"aten.fmod.Tensor", nonlinear},
    {"aten.gcd.default", nonlinear},
    {"aten.ge.Scalar", nonlinear},
    {"aten.ge.Tensor", nonlinear},
    {"aten.gt.Scalar", nonlinear},
    {"aten.gt.Tensor", nonlinear},
    {"aten.heaviside.default", nonlinear},
    {"aten.hypot.default", nonlinear},
    {"aten.lcm.default", nonlinear},
    {"aten.le.Scalar", nonlinear},
    {"aten.le.Tensor", nonlinear},
    {"aten.logaddexp.default", nonlinear},
    {"aten.logaddexp2.default", nonlinear},
    {"aten.logical_and.default", nonlinear},
    {"aten.logical_or.default", nonlinear},
    {"aten.logical_xor.default", nonlinear},
    {"aten.lt.Scalar", nonlinear},
    {"aten.lt.Tensor", nonlinear},
    {"aten.maximum.default", nonlinear},
    {"aten.minimum.default", nonlinear},
    {"aten.ne.Scalar", nonlinear},
    {"aten.ne.Tensor", nonlinear},
    {"aten.nextafter.default", nonlinear},
    {"aten.pow.Scalar", nonlinear},
    {"aten.pow.Tensor_Tensor", nonlinear},
    {"aten.remainder.Scalar", nonlinear},
    {"aten.remainder.Scalar_Tensor", nonlinear},
    {"aten.remainder.Tensor", nonlinear},
    {"aten.xlogy.Scalar_Other", nonlinear},
    {"aten.xlogy.Scalar_Self", nonlinear},
    {"aten.xlogy.Tensor", nonlinear},
};

}  // namespace

std::span<const RuleEntry> pointwise_rules() { return kRules; }

}  // namespace autopar::costs
