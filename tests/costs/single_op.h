#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "costs/compute.h"
#include "tests/costs/cluster_files.h"

namespace autopar::costs::testing {

inline TensorMeta tensor(std::vector<std::int64_t> shape, DType dtype = DType::kBFloat16) {
  return {std::move(shape), {}, dtype};
}

/// One op on a mesh of 8, all replicated until set_input and set_output cut it.
class Op {
 public:
  Op(std::string op, const std::vector<TensorMeta>& inputs, const std::vector<TensorMeta>& outputs) {
    for (const TensorMeta& input : inputs) {
      Node placeholder;
      placeholder.op = "placeholder";
      placeholder.outputs.emplace_back(input);
      graph_.nodes.push_back(placeholder);
      arg(ValueRef{static_cast<std::int32_t>(graph_.nodes.size()) - 1, 0});
    }
    node_.op = std::move(op);
    for (const TensorMeta& output : outputs) node_.outputs.emplace_back(output);
    collect_inputs(node_);
    strategy_.inputs.resize(inputs.size());
    strategy_.outputs.resize(outputs.size());
  }

  template <typename Value>
  Op& arg(Value value) {
    node_.args.emplace_back().value = value;
    return *this;
  }
  Op& input(std::size_t i, Placement placement) {
    strategy_.inputs[i][0] = placement;
    return *this;
  }
  Op& output(std::size_t o, Placement placement) {
    strategy_.outputs[o][0] = placement;
    return *this;
  }

  Op& given_flops(std::int64_t flops) {
    node_.flops = flops;
    return *this;
  }

  double flops() const { return local_flops(graph_, node_, strategy_, mesh_); }
  double us(const std::string& cluster = "h100") const {
    return static_cast<double>(compute_ps(graph_, node_, strategy_, mesh_, shipped_cluster(cluster))) * 1e-6;
  }
  std::int64_t ps(const Cluster& cluster) const { return compute_ps(graph_, node_, strategy_, mesh_, cluster); }

 private:
  Graph graph_;
  Node node_;
  Strategy strategy_;
  Mesh mesh_{{8}, {"d"}};
};

/// [m, k] x [k, n]; the output in bfloat16 also for 8-bit inputs.
inline Op mm(std::int64_t m, std::int64_t k, std::int64_t n, DType dtype = DType::kBFloat16) {
  const DType sums = dtype_bytes(dtype) == 1 ? DType::kBFloat16 : dtype;
  return Op("aten.mm.default", {tensor({m, k}, dtype), tensor({k, n}, dtype)}, {tensor({m, n}, sums)});
}

}  // namespace autopar::costs::testing
