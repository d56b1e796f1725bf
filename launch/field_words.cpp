#include "launch/field_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace autopar::launch {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

bool is_matmul(std::string_view op) {
  constexpr std::array<std::string_view, 5> kOps = {"aten.mm.default", "aten.addmm.default", "aten.bmm.default",
                                                    "aten.linear.default", "aten._grouped_mm.default"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

bool is_attention(std::string_view op) { return contains(op, "_scaled_dot_product_"); }

bool is_norm(std::string_view op) {
  return contains(op, "layer_norm") || contains(op, "rms_norm") || contains(op, "aten.rsqrt.");
}

bool passes_weight(std::string_view op) {
  constexpr std::array<std::string_view, 12> kOps = {
      "aten.t.",      "aten.transpose.", "aten.permute.", "aten.view.",   "aten._unsafe_view.", "aten.reshape.",
      "aten.detach.", "aten.alias.",     "aten._to_copy", "aten.expand.", "aten.unsqueeze.",    "aten.clone."};
  return std::any_of(kOps.begin(), kOps.end(), [&](auto prefix) { return op.starts_with(prefix); });
}

std::optional<Factors> factors(std::string_view op, std::size_t num_inputs) {
  if (!is_matmul(op) || num_inputs < 2) return std::nullopt;
  // The two factors are the last two inputs of all these ops but linear, where a bias comes last.
  const std::size_t first = op == "aten.linear.default" ? 0 : num_inputs - 2;
  return Factors{first, first + 1};
}

std::string_view matmul_kind(costs::Placement a, costs::Placement w, costs::Placement out, std::string_view by_rows) {
  if (w.is_shard() && a.is_shard()) return out.is_partial() ? "row-parallel" : "split over the batch of matrices";
  if (w.is_shard()) return "column-parallel";
  if (a.is_shard()) return out.is_partial() ? "split over the contraction" : by_rows;
  if (a.is_partial()) return "on unfinished sums";
  return "replicated";
}

std::string_view rows_word(bool batch_is_cut, bool sequence_is_cut) {
  if (batch_is_cut == sequence_is_cut) return "split over tokens";
  return batch_is_cut ? "data-parallel" : "sequence-parallel";
}

std::string placed_word(costs::Placement placement, std::span<const std::string_view> dim_names) {
  if (placement.is_partial()) return "on unfinished sums";
  if (!placement.is_shard()) return "replicated";
  const auto dim = static_cast<std::size_t>(placement.dim());
  return dim < dim_names.size() ? fmt::format("split along {}", dim_names[dim])
                                : fmt::format("split along dim {}", dim);
}

std::string short_module(const std::string& path) {
  std::string rest = path;
  while (true) {
    const std::size_t dot = rest.rfind('.');
    const std::string last = dot == std::string::npos ? rest : rest.substr(dot + 1);
    const bool number =
        !last.empty() && std::all_of(last.begin(), last.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!number || dot == std::string::npos) return last.empty() ? "the top module" : last;
    rest.resize(dot);
  }
}

std::string short_dtype(std::string_view name) {
  if (name == "bfloat16") return "bf16";
  const bool is_float = name.starts_with("float") && name.substr(5).find('e') == std::string_view::npos;
  return is_float ? fmt::format("f{}", name.substr(5)) : std::string(name);
}

}  // namespace autopar::launch
