#pragma once

#include <string_view>

namespace autopar::costs {

/// Whether the outputs of `op` are views of its first tensor input: they share its storage and cost nothing.
bool is_view(std::string_view op);

/// Whether `op` is a view or only changes its tensor input's dtype.
bool is_cast_or_view(std::string_view op);

}  // namespace autopar::costs
