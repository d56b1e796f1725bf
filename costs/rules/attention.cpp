#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Scaled dot-product attention in all of torch's kernels. Batches and heads are independent of each other. Query rows
/// are too, unless a causal mask tells them apart by position; keys and values must be whole for each of them. In the
/// backward pass, where the statistics of whole rows are known, keys are independent as well.
namespace autopar::costs {
namespace {

constexpr std::int64_t kBatch = 0;
constexpr std::int64_t kHeads = 1;
constexpr std::int64_t kRows = 2;

/// Where the arguments stand in a kernel's signature.
struct Kernel {
  bool backward = false;
  std::size_t query = 0;       ///< position of query; key and value follow
  std::size_t output = 0;      ///< backward: position of what the forward gave
  std::size_t dropout = 0;     ///< position of dropout_p
  std::size_t causal = 0;      ///< position of is_causal
  std::size_t mask = 0;        ///< position of the mask or bias; beyond all arguments: by keyword or none
  std::string_view mask_name;  ///< "attn_mask" or "attn_bias"
};

class Attention {
 public:
  Attention(const Graph& graph, const Node& node, const Kernel& kernel)
      : graph_(graph), node_(node), kernel_(kernel), list_(graph, node) {
    const auto query = input_arg(node, kernel.query, "query");
    const auto key = input_arg(node, kernel.query + 1, "key");
    const auto value = input_arg(node, kernel.query + 2, "value");
    require(query && key && value, node, "attention needs query, key and value");
    query_ = *query;
    key_ = *key;
    value_ = *value;
    require(meta(query_).rank() == 4 && meta(key_).rank() == 4 && meta(value_).rank() == 4, node,
            "query, key and value must be [batch, heads, rows, width]");
    mask_ = input_arg(node, kernel.mask, kernel.mask_name);
    if (!kernel.backward) return;
    // Gradients of query, key and value, and of a bias.
    require(node.outputs.size() == 3 || node.outputs.size() == 4, node, "must have three or four outputs");
    const auto output = input_arg(node, kernel.output, "out");
    require(output.has_value(), node, "the gradient of attention needs its output");
    output_ = *output;
  }

  std::vector<OneDimStrategy> run() {
    add_shard(kBatch, false);
    add_shard(kHeads, size_of(meta(query_), kHeads) != size_of(meta(key_), kHeads));
    const bool causal = bool_arg(node_, kernel_.causal, "is_causal", false);
    const bool dropout = number_arg(node_, kernel_.dropout, "dropout_p").value_or(0) != 0;
    if (!causal) add_rows();
    if (!causal && !dropout && kernel_.backward) add_columns();
    if (kernel_.backward) add_pending_gradient();
    if (!dropout) add_pending_values();
    return list_.take();
  }

 private:
  const TensorMeta& meta(std::size_t input) const { return input_meta(graph_, node_, input); }

  /// Batch or heads: all tensors that have them are cut. Grouped heads stay with the key head that they share.
  void add_shard(std::int64_t dim, bool grouped) {
    const Split split = grouped ? Split::even_shard(dim, std::gcd(size_of(meta(query_), dim), size_of(meta(key_), dim)))
                                : Split::shard(dim);
    std::vector<Split> inputs = list_.replicated_inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (mask_ == i) {
        inputs[i] = broadcast_shard(meta(i), scores(), dim);
      } else if (meta(i).rank() >= 3) {
        inputs[i] = split;
      }
    }
    std::vector<Split> outputs = list_.replicated_outputs();
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (has_heads(o)) outputs[o] = is_bias_gradient(o) ? bias_gradient(inputs) : split;
    }
    list_.add(std::move(inputs), std::move(outputs));
  }

  /// Query rows, with all tensors that have them: each device sees whole keys and values, whose gradients are pending.
  void add_rows() {
    const std::int64_t rows = size_of(meta(query_), kRows);
    std::vector<Split> inputs = list_.replicated_inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (mask_ == i) {
        inputs[i] = broadcast_shard(meta(i), scores(), kRows);
      } else if (i != key_ && i != value_ && meta(i).rank() >= 3) {
        if (size_of(meta(i), kRows) != rows) return;  // a kernel that pads its statistics
        inputs[i] = Split::shard(kRows);
      }
    }
    std::vector<Split> outputs = list_.replicated_outputs();
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (!has_heads(o)) continue;
      if (is_bias_gradient(o)) {
        outputs[o] = bias_gradient(inputs);
        continue;
      }
      const bool of_keys = kernel_.backward && (o == 1 || o == 2);
      if (!of_keys && size_of(output_meta(node_, o), kRows) != rows) return;
      outputs[o] = of_keys ? Split::partial() : Split::shard(kRows);
    }
    list_.add(std::move(inputs), std::move(outputs));
  }

  /// Keys and values of a backward pass. Dropout tells them apart by position.
  void add_columns() {
    std::vector<Split> inputs = list_.replicated_inputs();
    inputs[key_] = inputs[value_] = Split::shard(kRows);
    if (mask_) inputs[*mask_] = broadcast_shard(meta(*mask_), scores(), kRows + 1);
    std::vector<Split> outputs = list_.replicated_outputs();
    outputs[0] = Split::partial();
    outputs[1] = outputs[2] = Split::shard(kRows);
    if (outputs.size() > 3) outputs[3] = bias_gradient(inputs);
    list_.add(std::move(inputs), std::move(outputs));
  }

  /// The output is linear in the values, and gradients of scores are linear in values and output together. Dropout
  /// could drop others from each summand.
  void add_pending_values() {
    std::vector<Split> inputs = list_.replicated_inputs();
    std::vector<Split> outputs(node_.outputs.size(), Split::partial());
    inputs[value_] = Split::partial();
    if (kernel_.backward) {
      inputs[output_] = Split::partial();
      outputs[2] = Split::replicate();
    } else {
      outputs = list_.replicated_outputs();
      outputs[0] = Split::partial();
    }
    list_.add(std::move(inputs), std::move(outputs));
  }

  /// All gradients are linear in the incoming one, which is the first input.
  void add_pending_gradient() {
    std::vector<Split> inputs = list_.replicated_inputs();
    inputs[0] = Split::partial();
    std::vector<Split> outputs = list_.replicated_outputs();
    for (Split& output : outputs) output = Split::partial();
    list_.add(std::move(inputs), std::move(outputs));
  }

  bool is_bias_gradient(std::size_t output) const { return kernel_.backward && output == 3; }

  /// Cut like the bias or, where the bias was broadcast along what is cut, a sum over the pieces.
  Split bias_gradient(const std::vector<Split>& inputs) const {
    const Split bias = mask_ ? inputs[*mask_] : Split::replicate();
    return bias.placement.is_shard() ? bias : Split::partial();
  }

  bool has_heads(std::size_t output) const {
    if (!node_.outputs[output]) return false;
    return node_.outputs[output]->rank() >= 3 || is_bias_gradient(output);
  }

  TensorMeta scores() const {
    const std::vector<std::int64_t>& q = meta(query_).shape;
    return {{q[0], q[1], q[2], size_of(meta(key_), kRows)}, {}, meta(query_).dtype};
  }

  const Graph& graph_;
  const Node& node_;
  const Kernel& kernel_;
  StrategyList list_;
  std::size_t query_ = 0;
  std::size_t key_ = 0;
  std::size_t value_ = 0;
  std::size_t output_ = 0;  ///< backward: what the forward gave
  std::optional<std::size_t> mask_;
};

constexpr std::size_t kByKeyword = 99;

// Signatures: native_functions.yaml of torch 2.13.
constexpr Kernel kCpu{false, 0, 0, 3, 4, kByKeyword, "attn_mask"};
constexpr Kernel kCpuBackward{true, 1, 4, 6, 7, kByKeyword, "attn_mask"};
constexpr Kernel kFlash{false, 0, 0, 3, 4, kByKeyword, "attn_mask"};
constexpr Kernel kFlashBackward{true, 1, 4, 10, 11, kByKeyword, "attn_mask"};
constexpr Kernel kEfficient{false, 0, 0, 5, 6, 3, "attn_bias"};
constexpr Kernel kEfficientBackward{true, 1, 5, 9, 11, 4, "attn_bias"};
constexpr Kernel kCudnn{false, 0, 0, 5, 6, 3, "attn_bias"};
constexpr Kernel kCudnnBackward{true, 1, 4, 13, 14, 8, "attn_bias"};

template <const Kernel& kernel>
std::vector<OneDimStrategy> attention(const Graph& graph, const Node& node) {
  return Attention(graph, node, kernel).run();
}

constexpr RuleEntry kRules[] = {
    {"aten._scaled_dot_product_cudnn_attention.default", attention<kCudnn>},
    {"aten._scaled_dot_product_cudnn_attention_backward.default", attention<kCudnnBackward>},
    {"aten._scaled_dot_product_efficient_attention.default", attention<kEfficient>},
    {"aten._scaled_dot_product_efficient_attention_backward.default", attention<kEfficientBackward>},
    {"aten._scaled_dot_product_flash_attention.default", attention<kFlash>},
    {"aten._scaled_dot_product_flash_attention_backward.default", attention<kFlashBackward>},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", attention<kCpu>},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default", attention<kCpuBackward>},
};

}  // namespace

std::span<const RuleEntry> attention_rules() { return kRules; }

bool attention_drops(const Node& node) {
  for (const auto& [op, kernel] : {std::pair{"aten._scaled_dot_product_cudnn_attention.default", kCudnn},
                                   {"aten._scaled_dot_product_efficient_attention.default", kEfficient},
                                   {"aten._scaled_dot_product_flash_attention.default", kFlash},
                                   {"aten._scaled_dot_product_flash_attention_for_cpu.default", kCpu}}) {
    if (node.op == op) return number_arg(node, kernel.dropout, "dropout_p").value_or(0) != 0;
  }
  return false;
}

}  // namespace autopar::costs
