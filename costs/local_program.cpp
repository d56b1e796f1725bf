#include "costs/local_program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "costs/placement.h"

namespace autopar::costs {
namespace {

/// One tensor that the program reduces; its dtype and bytes on one device.
ProgramAllReduce reduced_tensor(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                                const LocalProgram& program) {
  const auto input = static_cast<std::size_t>(std::max(program.reduced_input, 0));
  const TensorMeta& meta = graph.meta(node.inputs[input]);
  ProgramAllReduce one;
  one.dtype = meta.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  one.bytes = dtype_bytes(one.dtype);
  if (program.reduced_input < 0) return one;
  const std::vector<std::int64_t> shape = local_shape(meta, strategy.inputs[input], mesh);
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (static_cast<std::int64_t>(dim) != program.reduced_dim) one.bytes *= shape[dim];
  }
  return one;
}

/// A program that looks up an index, which it counts from where the local piece begins.
struct IndexProgram {
  std::string_view name;
  std::size_t index;  ///< which of the node's inputs
};
constexpr std::array kIndexPrograms = {
    IndexProgram{"embedding_masked", 1},
    IndexProgram{"embedding_dense_backward_masked", 1},
    IndexProgram{"gather_masked", 1},
    IndexProgram{"scatter_add_masked", 1},
    IndexProgram{"nll_loss_mean", 1},
    IndexProgram{"nll_loss_sharded", 1},
    IndexProgram{"nll_loss_backward_sharded", 2},
};

bool is_softmax(const Node& node) {
  return node.op.starts_with("aten._softmax") || node.op.starts_with("aten._log_softmax");
}

std::int64_t output_bytes(const Node& node, const Strategy& strategy, const Mesh& mesh) {
  return local_bytes(*node.outputs[0], strategy.outputs[0], mesh);
}

/// First the local index and three masks, of a byte per element: below, beyond, either. Then, beside the output, the
/// index and one mask, and of what is added by scatter_add a copy with zeros.
std::int64_t index_bytes(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                         const IndexProgram& program) {
  const TensorMeta& meta = graph.meta(node.inputs[program.index]);
  const std::int64_t index = local_bytes(meta, strategy.inputs[program.index], mesh);
  const std::int64_t mask = index / dtype_bytes(meta.dtype);
  std::int64_t beside = index + mask;
  if (program.name == "scatter_add_masked") beside += mask * dtype_bytes(node.outputs[0]->dtype);
  return std::max(beside, index + 3 * mask - output_bytes(node, strategy, mesh));
}

/// Up to three of the rows' statistics, and the result in float32 where the output is narrower.
std::int64_t softmax_bytes(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                           const LocalProgram& program) {
  const ProgramAllReduce rows = reduced_tensor(graph, node, strategy, mesh, program);
  const TensorMeta& output = *node.outputs[0];
  const std::int64_t bytes = output_bytes(node, strategy, mesh);
  const std::int64_t width = dtype_bytes(output.dtype);
  const std::int64_t wide = width < 4 ? bytes / width * 4 : 0;
  return 3 * rows.bytes + wide;
}

/// Losses of pairs whose kernels write all terms before they sum them up (torch 2.13).
bool is_sum_of_terms(const Node& node) {
  const bool is_loss = node.op.starts_with("aten.mse_loss.") || node.op.starts_with("aten.smooth_l1_loss.");
  return is_loss && node.outputs[0]->shape.empty();
}

}  // namespace

bool may_need_workspace(const Node& node) {
  constexpr std::array kOps = {"aten.embedding", "aten.gather.", "aten.scatter_add.", "aten.nll_loss"};
  return is_softmax(node) || is_sum_of_terms(node) ||
         std::any_of(kOps.begin(), kOps.end(), [&](const char* op) { return node.op.starts_with(op); });
}

std::int64_t workspace_bytes(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh) {
  std::int64_t most = is_sum_of_terms(node) ? local_bytes(graph.meta(node.inputs[0]), strategy.inputs[0], mesh) : 0;
  for (const LocalProgram& program : strategy.programs) {
    if (is_softmax(node) && program.num_all_reduces > 0) {
      most = std::max(most, softmax_bytes(graph, node, strategy, mesh, program));
    }
    const auto found = std::find_if(kIndexPrograms.begin(), kIndexPrograms.end(),
                                    [&](const IndexProgram& one) { return one.name == program.name; });
    if (found != kIndexPrograms.end()) most = std::max(most, index_bytes(graph, node, strategy, mesh, *found));
  }
  return most;
}

std::vector<ProgramAllReduce> program_all_reduces(const Graph& graph, const Node& node, const Strategy& strategy,
                                                  const Mesh& mesh, const Device& device,
                                                  const CollectiveModel& collectives) {
  std::vector<ProgramAllReduce> list;
  int most = 0;
  for (const LocalProgram& program : strategy.programs) most = std::max(most, program.num_all_reduces);
  for (int tensor = 0; tensor < most; ++tensor) {
    for (int dim = 0; dim < mesh.rank(); ++dim) {
      const LocalProgram& program = strategy.programs[static_cast<std::size_t>(dim)];
      if (program.num_all_reduces <= tensor) continue;
      ProgramAllReduce& one = list.emplace_back(reduced_tensor(graph, node, strategy, mesh, program));
      one.mesh_dim = dim;
      one.time_ps =
          collectives.time_ps(Collective::kAllReduce, 1U << dim, one.bytes) + std::llround(device.launch_s * 1e12);
    }
  }
  return list;
}

std::int64_t total_ps(const std::vector<ProgramAllReduce>& all_reduces) {
  std::int64_t sum = 0;
  for (const ProgramAllReduce& one : all_reduces) sum += one.time_ps;
  return sum;
}

}  // namespace autopar::costs
