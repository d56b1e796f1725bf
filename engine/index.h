#pragma once

#include <concepts>
#include <cstddef>

namespace autopar::engine {

/// Index into a standard container. Ids are 32-bit signed numbers; containers want size_t.
constexpr std::size_t ix(std::integral auto id) { return static_cast<std::size_t>(id); }

}  // namespace autopar::engine
