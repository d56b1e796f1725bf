#include "costs/views.h"

#include <unordered_set>

namespace autopar::costs {

bool is_view(std::string_view op) {
  static const std::unordered_set<std::string_view> views = {
      "aten._conj.default",
      "aten._neg_view.default",
      "aten._reshape_alias.default",
      "aten._unsafe_view.default",
      "aten.alias.default",
      "aten.as_strided.default",
      "aten.detach.default",
      "aten.diagonal.default",
      "aten.expand.default",
      "aten.flatten.using_ints",
      "aten.imag.default",
      "aten.narrow.default",
      "aten.permute.default",
      "aten.real.default",
      "aten.reshape.default",
      "aten.select.int",
      "aten.slice.Tensor",
      "aten.split.Tensor",
      "aten.split_with_sizes.default",
      "aten.squeeze.default",
      "aten.squeeze.dim",
      "aten.squeeze.dims",
      "aten.t.default",
      "aten.transpose.int",
      "aten.unbind.int",
      "aten.unfold.default",
      "aten.unsafe_split.Tensor",
      "aten.unsafe_split_with_sizes.default",
      "aten.unsqueeze.default",
      "aten.view.default",
      "aten.view.dtype",
      "aten.view_as_complex.default",
      "aten.view_as_real.default",
      "autopar.constrain.default",
  };
  return views.contains(op);
}

bool is_cast_or_view(std::string_view op) { return is_view(op) || op == "aten._to_copy.default"; }

}  // namespace autopar::costs
