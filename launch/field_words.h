#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "costs/placement.h"

/// The field's words for what ops do, alike in all that is said about plans.
namespace autopar::launch {

/// Matmuls, of which one factor can be a weight.
bool is_matmul(std::string_view op);
bool is_attention(std::string_view op);
/// RMSNorm comes fused or as a chain with one rsqrt.
bool is_norm(std::string_view op);
/// Ops that hand their first input on: between a parameter and the matmul that uses it.
bool passes_weight(std::string_view op);

/// Indices of the two factors among a matmul's inputs; nothing if there are not two.
struct Factors {
  std::size_t first = 0;
  std::size_t second = 0;
};
std::optional<Factors> factors(std::string_view op, std::size_t num_inputs);

/// How a matmul of activations (`a`) with a weight (`w`) runs on one mesh dim. `by_rows`: the word where the
/// activations' rows are split.
std::string_view matmul_kind(costs::Placement a, costs::Placement w, costs::Placement out, std::string_view by_rows);

/// The rows of a matmul's activations are tokens. Which kind a split of them is, the model's inputs tell: whether any
/// is cut along its batch or its sequence.
std::string_view rows_word(bool batch_is_cut, bool sequence_is_cut);

/// "split along heads", where a tensor with dims of these names is so placed.
std::string placed_word(costs::Placement placement, std::span<const std::string_view> dim_names);
inline constexpr std::array<std::string_view, 3> kAttentionDims = {"the batch", "heads", "the sequence"};

/// Last part of a module path that is not a number: "model.layers.0.mlp.gate_proj" gives "gate_proj".
std::string short_module(const std::string& path);

/// "bf16" for bfloat16, "f32" for float32.
std::string short_dtype(std::string_view name);

}  // namespace autopar::launch
