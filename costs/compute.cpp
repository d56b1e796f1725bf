#include "costs/compute.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "costs/placement.h"
#include "costs/rules/helpers.h"
#include "costs/views.h"

namespace autopar::costs {
namespace {

enum class CostKind : std::uint8_t {
  kMove,    ///< reads its inputs, writes its outputs: every op that is not in kOps
  kFree,    ///< moves nothing; views are so without a row
  kWrite,   ///< writes its outputs only
  kRows,    ///< reads as much of its first input as it gives
  kMatmul,  ///< [.., m, k] x [.., k, n]; `at`: the first matrix, in Node::inputs
  kLinear,  ///< [.., k] x [n, k]
  kGroupedMatmul,
  kConvolution,
  kConvolutionBackward,
  kAttention,          ///< `at`: position of is_causal in Node::args
  kAttentionBackward,  ///< the same
};

struct OpCost {
  std::string_view op;
  CostKind kind = CostKind::kMove;
  std::size_t at = 0;
};

// One row per op that is not priced by the bytes of its inputs and outputs.
constexpr OpCost kOps[] = {
    {"placeholder", CostKind::kFree},
    {"aten.empty.memory_format", CostKind::kFree},
    {"aten.empty_like.default", CostKind::kFree},
    {"aten.empty_permuted.default", CostKind::kFree},
    {"aten.empty_strided.default", CostKind::kFree},
    {"aten.lift_fresh.default", CostKind::kFree},
    {"aten.new_empty.default", CostKind::kFree},
    {"aten.new_empty_strided.default", CostKind::kFree},

    {"aten.fill.Scalar", CostKind::kWrite},
    {"aten.full_like.default", CostKind::kWrite},
    {"aten.new_full.default", CostKind::kWrite},
    {"aten.new_ones.default", CostKind::kWrite},
    {"aten.new_zeros.default", CostKind::kWrite},
    {"aten.nll_loss2d_backward.default", CostKind::kWrite},
    {"aten.nll_loss_backward.default", CostKind::kWrite},
    {"aten.ones_like.default", CostKind::kWrite},
    {"aten.rand_like.default", CostKind::kWrite},
    {"aten.randn_like.default", CostKind::kWrite},
    {"aten.zeros_like.default", CostKind::kWrite},

    {"aten.embedding.default", CostKind::kRows},
    {"aten.gather.default", CostKind::kRows},
    {"aten.index.Tensor", CostKind::kRows},
    {"aten.index_select.default", CostKind::kRows},
    {"aten.nll_loss2d_forward.default", CostKind::kRows},
    {"aten.nll_loss_forward.default", CostKind::kRows},
    {"aten.take_along_dim.default", CostKind::kRows},

    {"aten._int_mm.default", CostKind::kMatmul, 0},
    {"aten._scaled_mm.default", CostKind::kMatmul, 0},
    {"aten.addmm.default", CostKind::kMatmul, 1},
    {"aten.baddbmm.default", CostKind::kMatmul, 1},
    {"aten.bmm.default", CostKind::kMatmul, 0},
    {"aten.mm.default", CostKind::kMatmul, 0},
    {"aten.linear.default", CostKind::kLinear},
    {"aten._grouped_mm.default", CostKind::kGroupedMatmul},
    {"aten._scaled_grouped_mm.default", CostKind::kGroupedMatmul},

    {"aten.convolution.default", CostKind::kConvolution},
    {"aten.convolution_backward.default", CostKind::kConvolutionBackward},

    {"aten._scaled_dot_product_attention_math.default", CostKind::kAttention, 5},
    {"aten._scaled_dot_product_cudnn_attention.default", CostKind::kAttention, 6},
    {"aten._scaled_dot_product_efficient_attention.default", CostKind::kAttention, 6},
    {"aten._scaled_dot_product_flash_attention.default", CostKind::kAttention, 4},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", CostKind::kAttention, 4},
    {"aten._scaled_dot_product_fused_attention_overrideable.default", CostKind::kAttention, 5},
    {"aten.scaled_dot_product_attention.default", CostKind::kAttention, 5},
    {"aten._scaled_dot_product_cudnn_attention_backward.default", CostKind::kAttentionBackward, 14},
    {"aten._scaled_dot_product_efficient_attention_backward.default", CostKind::kAttentionBackward, 11},
    {"aten._scaled_dot_product_flash_attention_backward.default", CostKind::kAttentionBackward, 11},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default", CostKind::kAttentionBackward, 7},
    {"aten._scaled_dot_product_fused_attention_overrideable_backward.default", CostKind::kAttentionBackward, 13},
};

const OpCost& cost_of(std::string_view op) {
  static const std::unordered_map<std::string_view, OpCost> table = [] {
    std::unordered_map<std::string_view, OpCost> by_name;
    for (const OpCost& row : kOps) by_name.emplace(row.op, row);
    return by_name;
  }();
  static constexpr OpCost kDefault;
  static constexpr OpCost kView = {"", CostKind::kFree};
  const auto found = table.find(op);
  if (found != table.end()) return found->second;
  return is_view(op) ? kView : kDefault;
}

/// What one multiprocessor works on: a piece of the output.
struct Tile {
  double high = 0;
  double wide = 0;
};

// cuBLAS's tiles (NVIDIA, "Matrix Multiplication Background User's Guide").
constexpr Tile kTiles[] = {{128, 256}, {256, 128}, {128, 128}, {64, 256}, {256, 64}, {64, 128}, {128, 64}, {64, 64}};

// In how many slices k is cut, so that narrow outputs occupy all multiprocessors.
bool is_product(const OpCost& cost) {
  return cost.kind == CostKind::kMatmul || cost.kind == CostKind::kLinear || cost.kind == CostKind::kGroupedMatmul;
}

constexpr double kSlices[] = {1, 2, 4, 8, 16, 32};

// k is taken in steps of 128 bytes of bfloat16, a line of shared memory.
constexpr double kStep = 64;

// Estimate: loading and placing one operand value takes a multiprocessor as long as this many multiply-adds. It orders
// tiles as NVIDIA's guide does; the size is what A100, which keeps its clock, needs at its best shape.
constexpr double kOperandCost = 8;

// Estimate: a trip to memory before the first multiplication of a tile, about 500 to 600 cycles, and a barrier.
constexpr double kFillSeconds = 0.5e-6;

constexpr double kSumBytes = 4;  // of one float32

/// Share of a multiprocessor's rate that is left for multiplying.
constexpr double multiplying_share(const Tile& tile) {
  return 1 / (1 + kOperandCost * (1 / tile.high + 1 / tile.wide));
}

/// Independent products [m, k] x [k, n].
struct Products {
  double batch = 1;
  double m = 1;
  double n = 1;
  double k = 1;

  double flops() const { return 2 * batch * m * n * k; }

  /// `rate`: flop/s of all multiprocessors; `output_bytes`: of one value. Each term grows with every size, so a piece
  /// never takes longer than the whole.
  double seconds(const Device& device, double rate, double output_bytes) const {
    if (flops() == 0) return 0;
    double best = std::numeric_limits<double>::infinity();
    for (const Tile& tile : kTiles) {
      for (double slices : kSlices) best = std::min(best, seconds(device, rate, output_bytes, tile, slices));
    }
    return best;
  }

 private:
  double seconds(const Device& device, double rate, double output_bytes, const Tile& tile, double slices) const {
    const auto multiprocessors = static_cast<double>(device.multiprocessors);
    const double units = batch * std::ceil(m / tile.high) * std::ceil(n / tile.wide) * slices;
    const double waves = std::ceil(units / multiprocessors);
    const double depth = std::ceil(k / slices / kStep) * kStep;
    const double multiply_s = 2 * tile.high * tile.wide * depth * multiprocessors / (rate * multiplying_share(tile));
    const double stored_bytes = slices > 1 ? kSumBytes : output_bytes;
    const double store_s =
        std::min(units, multiprocessors) * tile.high * tile.wide * stored_bytes / device.memory_bandwidth;
    const double add_s = slices > 1 ? batch * m * n * (slices * kSumBytes + output_bytes) / device.memory_bandwidth : 0;
    // With a second accumulator a tile is stored while the next is multiplied.
    const double tiles_s = device.accumulators > 1 ? waves * std::max(multiply_s, store_s) + kFillSeconds + store_s
                                                   : waves * (multiply_s + kFillSeconds + store_s);
    return tiles_s + add_s;
  }
};

/// One node on its local pieces.
class LocalOp {
 public:
  LocalOp(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh)
      : graph_(graph), node_(node), strategy_(strategy), mesh_(mesh), cost_(cost_of(node.op)) {}

  double flops() const {
    if (node_.flops >= 0) return static_cast<double>(node_.flops) / num_pieces();
    if (is_matmul()) return products().flops();
    switch (cost_.kind) {
      case CostKind::kFree:
        return 0;
      case CostKind::kConvolution:
      case CostKind::kConvolutionBackward:
        return convolution_flops();
      case CostKind::kAttention:
      case CostKind::kAttentionBackward:
        return attention_flops();
      default:
        return elements_moved();
    }
  }

  double seconds(const Device& device) const {
    if (cost_.kind == CostKind::kFree) return 0;
    if (is_fused()) return fused_bytes() / device.memory_bandwidth + num_launches() * device.launch_s;
    return std::max(working_s(device), bytes_moved() / device.memory_bandwidth) + device.launch_s;
  }

  double piece_seconds(const Device& device, std::int64_t pieces) const {
    const auto parts = static_cast<double>(pieces);
    if (node_.flops >= 0) return working_s(device) / parts + device.launch_s;
    Products piece = products();
    double& cut = piece.batch > 1 ? piece.batch : piece.m;
    cut = std::ceil(cut / parts);
    const auto output_bytes = static_cast<double>(dtype_bytes(output_meta(node_, 0).dtype));
    const auto input_bytes = static_cast<double>(dtype_bytes(input_meta(graph_, node_, cost_.at).dtype));
    const double bytes = piece.batch * (input_bytes * piece.k * (piece.m + piece.n) + output_bytes * piece.m * piece.n);
    const double multiply_s = piece.seconds(device, matmul_rate(device, cost_.at), output_bytes);
    return std::max(multiply_s, bytes / device.memory_bandwidth) + device.launch_s;
  }

 private:
  using Shape = std::vector<std::int64_t>;

  double working_s(const Device& device) const {
    if (node_.flops >= 0) return flops() / (node_.inputs.empty() ? device.vector_flops : large_tile_rate(device, 0));
    if (is_matmul()) {
      return products().seconds(device, matmul_rate(device, cost_.at),
                                static_cast<double>(dtype_bytes(output_meta(node_, 0).dtype)));
    }
    if (cost_.kind == CostKind::kAttention || cost_.kind == CostKind::kAttentionBackward) {
      return flops() / (device.attention_share * large_tile_rate(device, 0));
    }
    return flops() / (is_dense_convolution() ? large_tile_rate(device, 0) : device.vector_flops);
  }

  bool is_matmul() const { return is_product(cost_); }

  /// In how many pieces the work is cut, as far as placements tell.
  double num_pieces() const {
    double pieces = 1;
    for (int dim = 0; dim < mesh_.rank(); ++dim) {
      const auto is_cut = [dim](const Placements& placements) { return !placements[dim].is_replicate(); };
      if (std::any_of(strategy_.inputs.begin(), strategy_.inputs.end(), is_cut) ||
          std::any_of(strategy_.outputs.begin(), strategy_.outputs.end(), is_cut)) {
        pieces *= static_cast<double>(mesh_.shape[static_cast<std::size_t>(dim)]);
      }
    }
    return pieces;
  }

  /// Of the tensor cores, as long as they have something to multiply.
  double matmul_rate(const Device& device, std::size_t input) const {
    const auto found = device.matmul_flops.find(input_meta(graph_, node_, input).dtype);
    return found == device.matmul_flops.end() ? device.vector_flops : device.matmul_clock * found->second;
  }

  double large_tile_rate(const Device& device, std::size_t input) const {
    return multiplying_share(kTiles[0]) * matmul_rate(device, input);
  }

  Shape input(std::size_t i) const { return local_shape(input_meta(graph_, node_, i), strategy_.inputs[i], mesh_); }
  Shape output(std::size_t o) const { return local_shape(output_meta(node_, o), strategy_.outputs[o], mesh_); }

  static double at(const Shape& shape, std::size_t i) { return static_cast<double>(shape.at(i)); }
  static double from_end(const Shape& shape, std::size_t i) { return at(shape, shape.size() - i); }
  static double elements(const Shape& shape, std::size_t from = 0) {
    double n = 1;
    for (std::size_t i = from; i < shape.size(); ++i) n *= at(shape, i);
    return n;
  }

  Products products() const {
    const Shape a = input(cost_.at);
    const Shape b = input(cost_.at + 1);
    if (cost_.kind == CostKind::kLinear) return {1, elements(a) / from_end(a, 1), at(b, 0), from_end(a, 1)};
    Products products{1, from_end(a, 2), from_end(b, 1), from_end(a, 1)};
    // A grouped product's tokens are shared out among the experts, on whichever side they stand; only where both sides
    // have a batch dim it is a batch.
    if (a.size() == 3 && b.size() == 3) products.batch = at(a, 0);
    return products;
  }

  double convolution_flops() const {
    const bool backward = cost_.kind == CostKind::kConvolutionBackward;
    const bool transposed = bool_arg(node_, backward ? 7 : 6, "transposed", false);
    const Shape small = backward ? (transposed ? input(1) : input(0)) : (transposed ? input(0) : output(0));
    const double one = 2 * elements(small) * elements(input(backward ? 2 : 1), 1);
    if (!backward) return one;
    const auto is_given = [&](std::size_t o) { return o < node_.outputs.size() && node_.outputs[o] ? 1.0 : 0.0; };
    return one * (is_given(0) + is_given(1));
  }

  /// Tensor cores need some channels to contract over; a depthwise convolution has one.
  bool is_dense_convolution() const {
    if (cost_.kind != CostKind::kConvolution && cost_.kind != CostKind::kConvolutionBackward) return false;
    return input_meta(graph_, node_, cost_.kind == CostKind::kConvolution ? 1 : 2).shape.at(1) >= 16;
  }

  double attention_flops() const {
    const bool backward = cost_.kind == CostKind::kAttentionBackward;
    const std::size_t first = backward ? 1 : 0;  // after the gradient
    const Shape q = input(first);
    const double rows = elements(q) / from_end(q, 1);  // batch, heads, queries
    const double columns = from_end(input(first + 1), 2);
    double flops = 2 * rows * columns * (from_end(q, 1) + from_end(input(first + 2), 1));
    if (bool_arg(node_, cost_.at, "is_causal", false)) flops /= 2;
    return backward ? 2.5 * flops : flops;
  }

  /// Programs that reduce inside are not compiled into one kernel with others.
  bool is_fused() const {
    const auto reduces = [](const LocalProgram& program) { return program.num_all_reduces > 0; };
    return node_.fusion.is_fused && std::none_of(strategy_.programs.begin(), strategy_.programs.end(), reduces);
  }

  /// A pending sum is reduced before others of the kernel read it: then it is written and read, in another kernel.
  bool is_kept_in_registers(std::size_t o) const {
    return node_.fusion.is_written[o] == 0 && !is_pending(strategy_.outputs[o]);
  }

  bool is_pending(const Placements& placements) const {
    for (int dim = 0; dim < mesh_.rank(); ++dim) {
      if (placements[dim].is_partial() && mesh_.shape[static_cast<std::size_t>(dim)] > 1) return true;
    }
    return false;
  }

  double fused_bytes() const {
    double bytes = 0;
    double given = 0;
    for (std::size_t o = 0; o < node_.outputs.size(); ++o) {
      if (!node_.outputs[o]) continue;
      const auto size = static_cast<double>(local_bytes(*node_.outputs[o], strategy_.outputs[o], mesh_));
      given += size;
      if (!is_kept_in_registers(o)) bytes += node_.fusion.is_written[o] != 0 ? size : 2 * size;
    }
    if (cost_.kind == CostKind::kWrite) return bytes;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      if (node_.fusion.is_read[i] == 0) continue;
      const bool is_table = cost_.kind == CostKind::kRows && i == 0;
      bytes +=
          is_table ? given : static_cast<double>(local_bytes(graph_.meta(node_.inputs[i]), strategy_.inputs[i], mesh_));
    }
    return bytes;
  }

  double num_launches() const {
    double launches = node_.fusion.starts_kernel ? 1 : 0;
    for (std::size_t o = 0; o < node_.outputs.size(); ++o) {
      if (node_.outputs[o] && node_.fusion.is_written[o] == 0 && !is_kept_in_registers(o)) ++launches;
    }
    return launches;
  }

  template <typename Size>
  double moved(const Size& size) const {
    double written = 0;
    for (std::size_t o = 0; o < node_.outputs.size(); ++o) {
      if (node_.outputs[o]) written += size(*node_.outputs[o], strategy_.outputs[o]);
    }
    double sum = written;
    if (cost_.kind == CostKind::kWrite) return sum;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      const bool is_table = cost_.kind == CostKind::kRows && i == 0;
      sum += is_table ? written : size(graph_.meta(node_.inputs[i]), strategy_.inputs[i]);
    }
    return sum;
  }

  double bytes_moved() const {
    return moved([&](const TensorMeta& tensor, const Placements& placements) {
      return static_cast<double>(local_bytes(tensor, placements, mesh_));
    });
  }

  double elements_moved() const {
    return moved([&](const TensorMeta& tensor, const Placements& placements) {
      return elements(local_shape(tensor, placements, mesh_));
    });
  }

  const Graph& graph_;
  const Node& node_;
  const Strategy& strategy_;
  const Mesh& mesh_;
  const OpCost& cost_;
};

}  // namespace

std::int32_t left_matrix(std::string_view op) {
  const OpCost& cost = cost_of(op);
  return is_product(cost) ? static_cast<std::int32_t>(cost.at) : -1;
}

double local_flops(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh) {
  return LocalOp(graph, node, strategy, mesh).flops();
}

std::int64_t compute_ps(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                        const Cluster& cluster) {
  return std::llround(LocalOp(graph, node, strategy, mesh).seconds(cluster.device) * 1e12);
}

std::int64_t matmul_piece_ps(const Graph& graph, const Node& node, const Strategy& strategy, const Mesh& mesh,
                             const Cluster& cluster, std::int64_t pieces) {
  return std::llround(LocalOp(graph, node, strategy, mesh).piece_seconds(cluster.device, pieces) * 1e12);
}

std::int64_t optimizer_ps(const TensorMeta& parameter, const Placements& placements, const Mesh& mesh,
                          const OptimizerState& optimizer, const Device& device) {
  const std::int64_t piece = local_bytes(parameter, placements, mesh);
  const std::int64_t state = parameter_bytes(parameter, placements, mesh, optimizer) - piece;
  const bool has_master = dtype_bytes(parameter.dtype) < 4 && optimizer.master_bytes_per_element > 0;
  const std::int64_t moved = 2 * state + (has_master ? 2 : 3) * piece;
  return std::llround(static_cast<double>(moved) / device.memory_bandwidth * 1e12);
}

}  // namespace autopar::costs
