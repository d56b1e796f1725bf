#pragma once

#include <string>
#include <utility>
#include <vector>

#include "costs/graph.h"
#include "partition/problem.h"

namespace autopar::partition::testing {

using costs::Arg;
using costs::DType;
using costs::OutputRole;
using costs::Phase;
using costs::Role;
using costs::ValueRef;

/// Writes small graphs by hand. Modules and phases are set before the ops that they hold for.
class ToyGraph {
 public:
  ValueRef input(Role role, const std::string& name, std::vector<std::int64_t> shape, DType dtype = DType::kBFloat16) {
    costs::Node node;
    node.key = name;
    node.op = "placeholder";
    node.role = role;
    node.name = name;
    node.outputs = {meta(std::move(shape), dtype)};
    return add(std::move(node));
  }

  /// `shape` of the only output, in the dtype of the first tensor.
  ValueRef op(const std::string& name, std::vector<Arg> args, std::vector<std::int64_t> shape) {
    costs::Node node;
    node.key =
        module + "/" + (phase == Phase::kForward ? "f/" : "b/") + name + "." + std::to_string(graph.nodes.size());
    node.op = "aten." + name;
    node.args = std::move(args);
    node.module = module;
    node.phase = phase;
    node.seq = seq;
    costs::collect_inputs(node);
    const DType dtype = node.inputs.empty() ? DType::kBFloat16 : graph.meta(node.inputs[0]).dtype;
    node.outputs = {meta(std::move(shape), dtype)};
    return add(std::move(node));
  }

  void output(ValueRef value, OutputRole role, ValueRef of = {}) { graph.outputs.push_back({value, role, of.node}); }

  static Arg ref(ValueRef value) { return {value}; }

  costs::Graph graph;
  std::string module;
  Phase phase = Phase::kForward;
  std::int64_t seq = -1;

 private:
  static costs::TensorMeta meta(std::vector<std::int64_t> shape, DType dtype) {
    std::vector<std::int64_t> stride(shape.size());
    std::int64_t step = 1;
    for (std::size_t i = shape.size(); i-- > 0; step *= shape[i]) stride[i] = step;
    return {std::move(shape), std::move(stride), dtype};
  }

  ValueRef add(costs::Node node) {
    graph.nodes.push_back(std::move(node));
    return {static_cast<std::int32_t>(graph.nodes.size()) - 1, 0};
  }
};

/// Eight devices per node; round figures.
inline costs::Cluster toy_cluster() {
  costs::Cluster cluster;
  cluster.name = "toy";
  cluster.device.name = "toy";
  cluster.device.memory_bytes = std::int64_t{1} << 36;
  cluster.device.multiprocessors = 100;
  cluster.device.matmul_flops = {{DType::kBFloat16, 5e14}, {DType::kFloat32, 1e14}};
  cluster.device.vector_flops = 5e13;
  cluster.device.memory_bandwidth = 3e12;
  cluster.device.launch_s = 2e-6;
  cluster.links = {{"inside", 8, 4e11, 5e-6, 1e-6, 0, 0}, {"outside", 0, 5e10, 2e-5, 3e-6, 0, 0}};
  return cluster;
}

inline Problem toy_problem(costs::Graph graph, std::vector<std::int64_t> mesh_shape) {
  Problem problem;
  problem.graph = std::move(graph);
  for (std::size_t i = 0; i < mesh_shape.size(); ++i) problem.mesh.dim_names.push_back("dim" + std::to_string(i));
  problem.mesh.shape = std::move(mesh_shape);
  problem.cluster = toy_cluster();
  return problem;
}

/// Layers x -> x + relu(x w) with the loss sum(x), and their backward, as a capture would have it: the residual's
/// gradient sums carry no module. `weights`: one per layer, or a single one that all layers share.
inline costs::Graph residual_layers(int num_layers, bool shared_weight = false) {
  constexpr std::int64_t kRows = 4096;
  constexpr std::int64_t kWidth = 1024;
  ToyGraph toy;
  std::vector<ValueRef> weights;
  for (int i = 0; i < (shared_weight ? 1 : num_layers); ++i) {
    weights.push_back(toy.input(Role::kParameter, "layers." + std::to_string(i) + ".weight", {kWidth, kWidth}));
  }
  const auto weight = [&](int layer) { return weights[shared_weight ? 0 : static_cast<std::size_t>(layer)]; };
  const ValueRef first = toy.input(Role::kInput, "x", {kRows, kWidth});
  const ValueRef tangent = toy.input(Role::kTangent, "loss", {});
  toy.module = "embed";
  ValueRef x = toy.op("relu.default", {ToyGraph::ref(first)}, {kRows, kWidth});
  std::vector<ValueRef> layer_inputs;
  std::vector<ValueRef> activations;
  for (int i = 0; i < num_layers; ++i) {
    toy.module = "layers." + std::to_string(i) + ".mlp";
    toy.seq = 10 * (i + 1);
    layer_inputs.push_back(x);
    const ValueRef y = toy.op("mm.default", {ToyGraph::ref(x), ToyGraph::ref(weight(i))}, {kRows, kWidth});
    activations.push_back(toy.op("relu.default", {ToyGraph::ref(y)}, {kRows, kWidth}));
    x = toy.op("add.Tensor", {ToyGraph::ref(x), ToyGraph::ref(activations.back())}, {kRows, kWidth});
  }
  toy.module = "head";
  toy.seq = 1000;
  toy.output(toy.op("sum.default", {ToyGraph::ref(x)}, {}), OutputRole::kLoss);

  toy.phase = Phase::kBackward;
  ValueRef gradient =
      toy.op("expand.default", {ToyGraph::ref(tangent), {Arg::List{{kRows}, {kWidth}}}}, {kRows, kWidth});
  std::vector<ValueRef> weight_gradients;
  for (int i = num_layers - 1; i >= 0; --i) {
    const auto layer = static_cast<std::size_t>(i);
    toy.module = "layers." + std::to_string(i) + ".mlp";
    toy.seq = 10 * (i + 1);
    const ValueRef inner =
        toy.op("threshold_backward.default",
               {ToyGraph::ref(gradient), ToyGraph::ref(activations[layer]), {std::int64_t{0}}}, {kRows, kWidth});
    const ValueRef xt = toy.op("t.default", {ToyGraph::ref(layer_inputs[layer])}, {kWidth, kRows});
    weight_gradients.push_back(toy.op("mm.default", {ToyGraph::ref(xt), ToyGraph::ref(inner)}, {kWidth, kWidth}));
    const ValueRef wt = toy.op("t.default", {ToyGraph::ref(weight(i))}, {kWidth, kWidth});
    const ValueRef dx = toy.op("mm.default", {ToyGraph::ref(inner), ToyGraph::ref(wt)}, {kRows, kWidth});
    toy.module = "";
    toy.seq = 1000;
    gradient = toy.op("add.Tensor", {ToyGraph::ref(gradient), ToyGraph::ref(dx)}, {kRows, kWidth});
    if (shared_weight && weight_gradients.size() > 1) {
      const ValueRef sum = toy.op(
          "add.Tensor", {ToyGraph::ref(weight_gradients[0]), ToyGraph::ref(weight_gradients[1])}, {kWidth, kWidth});
      weight_gradients = {sum};
    }
  }
  for (std::size_t i = 0; i < weight_gradients.size(); ++i) {
    toy.output(weight_gradients[i], OutputRole::kGradient, weights[weights.size() - 1 - i]);
  }
  return std::move(toy.graph);
}

/// loss = sum(y), y = x w, and a gradient of w that is made of y, so that values are read in both phases.
inline costs::Graph linear_step(std::int64_t rows, std::int64_t width) {
  ToyGraph toy;
  const ValueRef w = toy.input(Role::kParameter, "w", {width, width});
  const ValueRef x = toy.input(Role::kInput, "x", {rows, width});
  const ValueRef tangent = toy.input(Role::kTangent, "loss", {});
  const ValueRef y = toy.op("mm.default", {ToyGraph::ref(x), ToyGraph::ref(w)}, {rows, width});
  toy.output(toy.op("sum.default", {ToyGraph::ref(y)}, {}), OutputRole::kLoss);
  toy.phase = Phase::kBackward;
  const ValueRef dy = toy.op("mul.Tensor", {ToyGraph::ref(y), ToyGraph::ref(tangent)}, {rows, width});
  const ValueRef xt = toy.op("t.default", {ToyGraph::ref(x)}, {width, rows});
  toy.output(toy.op("mm.default", {ToyGraph::ref(xt), ToyGraph::ref(dy)}, {width, width}), OutputRole::kGradient, w);
  return std::move(toy.graph);
}

}  // namespace autopar::partition::testing
