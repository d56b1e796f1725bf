#pragma once

#include <string_view>

namespace autopar::costs {

/// Whether the outputs of `op` are views of its first tensor input: they share its storage and cost nothing.
bool is_view(std::string_view op);

}  // namespace autopar::costs
