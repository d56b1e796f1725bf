#include "costs/fusion.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"
#include "costs/views.h"

namespace autopar::costs {
namespace {

/// Most ops in one kernel (Inductor's max_fusion_size).
constexpr std::size_t kMostNodes = 64;

enum class FusionKind : std::uint8_t {
  kNone,
  kPointwise,
  kCreation,       ///< pointwise, of its arguments' shapes alone
  kLookup,         ///< pointwise, but the first input must be in memory
  kReduction,      ///< of the dims in its argument
  kRowwise,        ///< reduces one dim, `at` in Node::args, and gives as much as it reads
  kNormalization,  ///< reduces trailing dims, whose sizes are the second argument, and gives as much as it reads
};

struct FusionRow {
  std::string_view op;
  FusionKind kind = FusionKind::kNone;
  std::size_t at = 1;
};

// Ops whose family does not say it.
constexpr FusionRow kOps[] = {
    {"aten._log_softmax.default", FusionKind::kRowwise},
    {"aten._log_softmax_backward_data.default", FusionKind::kRowwise, 2},
    {"aten._safe_softmax.default", FusionKind::kRowwise},
    {"aten._softmax.default", FusionKind::kRowwise},
    {"aten._softmax_backward_data.default", FusionKind::kRowwise, 2},
    {"aten.huber_loss_backward.default", FusionKind::kPointwise},
    {"aten.mse_loss_backward.default", FusionKind::kPointwise},
    {"aten.nll_loss_backward.default", FusionKind::kCreation},
    {"aten.smooth_l1_loss_backward.default", FusionKind::kPointwise},
    {"aten._fused_rms_norm.default", FusionKind::kNormalization},
    {"aten.native_layer_norm.default", FusionKind::kNormalization},
    {"aten._unsafe_index.Tensor", FusionKind::kLookup},
    {"aten.embedding.default", FusionKind::kLookup},
    {"aten.gather.default", FusionKind::kLookup},
    {"aten.index.Tensor", FusionKind::kLookup},
    {"aten.index_select.default", FusionKind::kLookup},
    {"aten.linalg_vector_norm.default", FusionKind::kReduction, 2},
    {"aten.one_hot.default", FusionKind::kPointwise},
    {"aten.select_backward.default", FusionKind::kPointwise},
    {"aten.slice_backward.default", FusionKind::kPointwise},
};

const FusionRow& fusion_of(std::string_view op) {
  static const std::unordered_map<std::string_view, FusionRow> table = [] {
    std::unordered_map<std::string_view, FusionRow> by_name;
    for (const FusionRow& row : kOps) by_name.emplace(row.op, row);
    const auto add = [&](std::span<const RuleEntry> family, FusionKind kind) {
      for (const RuleEntry& entry : family) by_name.try_emplace(entry.op, FusionRow{entry.op, kind});
    };
    for (const auto& family : {pointwise_rules(), structural_rules(), random_rules()}) {
      add(family, FusionKind::kPointwise);
    }
    add(creation_rules(), FusionKind::kCreation);
    add(reduction_rules(), FusionKind::kReduction);
    return by_name;
  }();
  static constexpr FusionRow kOther;
  const auto found = table.find(op);
  return found == table.end() ? kOther : found->second;
}

/// What a kernel runs over: `rows` results, each of `reduced` elements; a pointwise op reduces one.
struct Space {
  std::int64_t rows = 0;
  std::int64_t reduced = 1;
  bool is_reduction() const { return reduced > 1; }
  std::int64_t elements() const { return rows * reduced; }
};

struct OpSpace {
  Space space;
  bool is_outer = false;  ///< reduces others than the innermost dims
};

OpSpace reduction_space(const TensorMeta& tensor, const std::vector<std::int64_t>& dims) {
  OpSpace op;
  bool kept_behind = false;
  for (std::int64_t dim = tensor.rank(); dim-- > 0;) {
    const std::int64_t size = size_of(tensor, dim);
    const bool is_reduced = dims.empty() || contains(dims, dim);
    if (is_reduced) op.space.reduced *= size;
    op.is_outer |= is_reduced && kept_behind && size > 1;
    kept_behind |= !is_reduced && size > 1;
  }
  op.space.rows = tensor.numel() / std::max<std::int64_t>(op.space.reduced, 1);
  return op;
}

OpSpace op_space(const Graph& graph, const Node& node) {
  const FusionRow& row = fusion_of(node.op);
  if (row.kind == FusionKind::kReduction || row.kind == FusionKind::kRowwise) {
    const TensorMeta& tensor = input_meta(graph, node, 0);
    return reduction_space(tensor, dims_arg(node, row.at, "dim", tensor.rank()));
  }
  if (row.kind == FusionKind::kNormalization) {
    const TensorMeta& tensor = input_meta(graph, node, 0);
    std::vector<std::int64_t> dims;
    const auto num_dims = static_cast<std::int64_t>(ints_arg(node, 1, "normalized_shape").size());
    for (std::int64_t dim = tensor.rank() - num_dims; dim < tensor.rank(); ++dim) dims.push_back(dim);
    return reduction_space(tensor, dims);
  }
  return {{output_meta(node).numel(), 1}, false};
}

/// Whether an op over `op` can be in a kernel over `kernel`; if so, widens the kernel. Where both are pointwise one may
/// run over a piece of the other, or be broadcast to it: then its elements are computed where they are needed.
bool fits(const Space& op, Space& kernel) {
  if (op.is_reduction() && kernel.is_reduction()) return op.rows == kernel.rows && op.reduced == kernel.reduced;
  if (kernel.is_reduction()) return op.rows == kernel.elements() || op.rows == kernel.rows;
  if (op.is_reduction()) {
    if (kernel.rows != op.elements()) return false;
    kernel = op;
    return true;
  }
  const auto [small, large] = std::minmax(op.rows, kernel.rows);
  if (small == 0 || large % small != 0) return false;
  kernel.rows = large;
  return true;
}

/// Ops that run as one, of one phase. Kernels that read from it have a higher level, so what has a lower or equal level
/// does not depend on it.
struct Kernel {
  std::vector<std::int32_t> nodes;
  Space space;
  int level = 0;
  bool can_grow = false;
};

class Fuser {
 public:
  Fuser(Graph& graph, const std::vector<char>& compiled)
      : graph_(graph), compiled_(compiled), kernel_of_(graph.nodes.size(), -1), reduction_of_(graph.nodes.size(), -1) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      readers_.emplace_back(graph.nodes[i].outputs.size());
      is_given_.emplace_back(graph.nodes[i].outputs.size(), 0);
      if (!is_op(static_cast<std::int32_t>(i))) continue;
      for (const ValueRef& input : graph.nodes[i].inputs) {
        const ValueRef source = root(input);
        readers_[ix(source.node)][ix(source.output)].push_back(static_cast<std::int32_t>(i));
      }
    }
    for (const GraphOutput& output : graph.outputs) {
      const ValueRef source = root(output.value);
      is_given_[ix(source.node)][ix(source.output)] = 1;
    }
  }

  void run() {
    find_outer_reductions();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto node = static_cast<std::int32_t>(i);
      if (is_op(node) && (reduction_of_[i] < 0 || reduction_of_[i] == node)) place(node);
    }
    for (const Kernel& kernel : kernels_) {
      if (kernel.nodes.size() > 1) describe(kernel);
    }
  }

 private:
  static std::size_t ix(std::int32_t i) { return static_cast<std::size_t>(i); }

  bool is_op(std::int32_t node) const {
    return graph_.nodes[ix(node)].role == Role::kNone && !is_view(graph_.nodes[ix(node)].op);
  }
  bool is_fusible(std::int32_t node) const {
    const Node& op = graph_.nodes[ix(node)];
    if (!compiled_.empty() && compiled_[ix(node)] == 0) return false;
    return fusion_of(op.op).kind != FusionKind::kNone && op.flops < 0 && !op.outputs.empty() && op.outputs[0] &&
           !is_complex(op.outputs[0]->dtype);
  }

  /// The value whose storage `value` is in.
  ValueRef root(ValueRef value) const {
    while (graph_.nodes[ix(value.node)].role == Role::kNone && is_view(graph_.nodes[ix(value.node)].op)) {
      value = graph_.nodes[ix(value.node)].inputs[0];
    }
    return value;
  }

  /// The node of the same phase that makes what `input` is a view of; -1 if there is none.
  std::int32_t producer(const Node& node, ValueRef input) const {
    const std::int32_t source = root(input).node;
    const Node& made = graph_.nodes[ix(source)];
    return made.role == Role::kNone && made.phase == node.phase ? source : -1;
  }

  /// Whether all that needs what `node` gives is taken along by `reduction`.
  bool is_only_for(std::int32_t node, std::int32_t reduction) const {
    for (std::size_t o = 0; o < readers_[ix(node)].size(); ++o) {
      if (is_given_[ix(node)][o] != 0) return false;
      for (const std::int32_t reader : readers_[ix(node)][o]) {
        if (reduction_of_[ix(reader)] != reduction ||
            fusion_of(graph_.nodes[ix(reader)].op).kind == FusionKind::kLookup) {
          return false;
        }
      }
    }
    return true;
  }

  void find_outer_reductions() {
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      const auto node = static_cast<std::int32_t>(i);
      if (!is_op(node) || !is_fusible(node)) continue;
      if (op_space(graph_, graph_.nodes[i]).is_outer) {
        reduction_of_[i] = node;
        continue;
      }
      if (op_space(graph_, graph_.nodes[i]).space.is_reduction()) continue;
      const std::vector<std::int32_t>& readers = readers_[i][0];
      const std::int32_t reduction = readers.empty() ? -1 : reduction_of_[ix(readers[0])];
      if (reduction >= 0 && graph_.nodes[ix(reduction)].phase == graph_.nodes[i].phase &&
          is_only_for(node, reduction)) {
        reduction_of_[i] = reduction;
      }
    }
  }

  void place(std::int32_t node) {
    if (!is_fusible(node)) {
      add_kernel({node}, {}, false);
      return;
    }
    if (reduction_of_[ix(node)] == node) {
      std::vector<std::int32_t> nodes;
      for (std::int32_t i = 0; i <= node; ++i) {
        if (reduction_of_[ix(i)] == node) nodes.push_back(i);
      }
      add_kernel(std::move(nodes), {}, false);
      return;
    }
    const Space space = op_space(graph_, graph_.nodes[ix(node)]).space;
    std::int32_t kernel = join_producers(node, space);
    if (kernel < 0) kernel = join_neighbour(node, space);
    if (kernel < 0) {
      add_kernel({node}, space, true);
    } else {
      kernels_[ix(kernel)].nodes.push_back(node);
      kernel_of_[ix(node)] = kernel;
    }
  }

  void add_kernel(std::vector<std::int32_t> nodes, Space space, bool can_grow) {
    const auto index = static_cast<std::int32_t>(kernels_.size());
    int level = 0;
    for (const std::int32_t node : nodes) level = std::max(level, producer_level(node) + 1);
    for (const std::int32_t node : nodes) kernel_of_[ix(node)] = index;
    kernels_.push_back({std::move(nodes), space, level, can_grow});
  }

  int producer_level(std::int32_t node) const {
    int level = 0;
    for (const ValueRef& input : graph_.nodes[ix(node)].inputs) {
      const std::int32_t source = producer(graph_.nodes[ix(node)], input);
      if (source >= 0 && kernel_of_[ix(source)] >= 0)
        level = std::max(level, kernels_[ix(kernel_of_[ix(source)])].level);
    }
    return level;
  }

  /// The kernel of those that `node` reads from, made one; -1 if they cannot be, or if an input depends on them.
  std::int32_t join_producers(std::int32_t node, const Space& space) {
    const Node& op = graph_.nodes[ix(node)];
    const int level = producer_level(node);
    std::vector<std::int32_t> sources;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const std::int32_t source = producer(op, op.inputs[i]);
      if (source < 0 || kernels_[ix(kernel_of_[ix(source)])].level < level) continue;
      const bool is_table = i == 0 && fusion_of(op.op).kind == FusionKind::kLookup;
      if (is_table || !kernels_[ix(kernel_of_[ix(source)])].can_grow) return -1;
      sources.push_back(kernel_of_[ix(source)]);
    }
    std::sort(sources.begin(), sources.end());
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    if (sources.empty()) return -1;
    std::size_t num_nodes = 1;
    Space all = kernels_[ix(sources[0])].space;
    for (const std::int32_t source : sources) {
      num_nodes += kernels_[ix(source)].nodes.size();
      if (!fits(kernels_[ix(source)].space, all)) return -1;
    }
    if (num_nodes > kMostNodes || !fits(space, all)) return -1;
    merge(sources, all);
    return sources[0];
  }

  void merge(const std::vector<std::int32_t>& kernels, const Space& space) {
    Kernel& kept = kernels_[ix(kernels[0])];
    kept.space = space;
    for (std::size_t k = 1; k < kernels.size(); ++k) {
      for (const std::int32_t node : kernels_[ix(kernels[k])].nodes) {
        kept.nodes.push_back(node);
        kernel_of_[ix(node)] = kernels[0];
      }
      kernels_[ix(kernels[k])].nodes.clear();
    }
    std::sort(kept.nodes.begin(), kept.nodes.end());
  }

  /// A kernel that reads one of the same tensors, over as many elements; -1: there is none.
  std::int32_t join_neighbour(std::int32_t node, const Space& space) {
    const Node& op = graph_.nodes[ix(node)];
    const int level = producer_level(node);
    for (const ValueRef& input : op.inputs) {
      const ValueRef source = root(input);
      if (graph_.meta(source).numel() < space.elements()) continue;
      for (const std::int32_t reader : readers_[ix(source.node)][ix(source.output)]) {
        const std::int32_t other = kernel_of_[ix(reader)];
        if (other < 0 || graph_.nodes[ix(reader)].phase != op.phase) continue;
        Kernel& kernel = kernels_[ix(other)];
        if (!kernel.can_grow || kernel.level <= level || kernel.nodes.size() >= kMostNodes) continue;
        if (kernel.space.elements() == space.elements() && fits(space, kernel.space)) return other;
      }
    }
    return -1;
  }

  /// Writes down what the ops of one kernel move.
  void describe(const Kernel& kernel) {
    struct Reading {
      ValueRef source;
      std::int32_t node;
      std::size_t input;
      std::int64_t elements;
    };
    std::vector<Reading> readings;
    for (const std::int32_t index : kernel.nodes) {
      Node& node = graph_.nodes[ix(index)];
      node.fusion.is_fused = true;
      node.fusion.starts_kernel = index == kernel.nodes[0];
      node.fusion.is_read.assign(node.inputs.size(), 0);
      describe_outputs(index);
      if (fusion_of(node.op).kind == FusionKind::kCreation) continue;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueRef source = root(node.inputs[i]);
        if (kernel_of_[ix(source.node)] == kernel_of_[ix(index)]) continue;
        const std::int64_t elements = graph_.meta(node.inputs[i]).numel();
        // Of a table some rows are read, whatever else of it is.
        if (i == 0 && fusion_of(node.op).kind == FusionKind::kLookup) {
          node.fusion.is_read[i] = 1;
          continue;
        }
        const auto known = std::find_if(readings.begin(), readings.end(),
                                        [&](const Reading& reading) { return reading.source == source; });
        if (known == readings.end()) {
          readings.push_back({source, index, i, elements});
        } else if (known->elements < elements) {
          *known = {source, index, i, elements};
        }
      }
    }
    for (const Reading& reading : readings) graph_.nodes[ix(reading.node)].fusion.is_read[reading.input] = 1;
  }

  void describe_outputs(std::int32_t index) {
    Fusion& fusion = graph_.nodes[ix(index)].fusion;
    fusion.is_written = is_given_[ix(index)];
    fusion.is_written_again.assign(fusion.is_written.size(), 0);
    for (std::size_t o = 0; o < readers_[ix(index)].size(); ++o) {
      for (const std::int32_t reader : readers_[ix(index)][o]) {
        if (kernel_of_[ix(reader)] != kernel_of_[ix(index)]) fusion.is_written[o] = 1;
        if (!is_fusible(reader)) fusion.is_written_again[o] = 1;
      }
    }
  }

  Graph& graph_;
  const std::vector<char>& compiled_;                            // per node; empty: all are
  std::vector<std::vector<std::vector<std::int32_t>>> readers_;  // ops, per node and output, views looked through
  std::vector<std::vector<char>> is_given_;                      // to a graph output, per node and output
  std::vector<std::int32_t> kernel_of_;                          // per node; -1: a view, a graph input, or not yet
  std::vector<std::int32_t> reduction_of_;  // per node: the outer reduction it goes along with or is; -1: none
  std::vector<Kernel> kernels_;
};

}  // namespace

void fuse(Graph& graph, const std::vector<char>& compiled) { Fuser(graph, compiled).run(); }

}  // namespace autopar::costs
