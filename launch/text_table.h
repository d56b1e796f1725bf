#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace autopar::launch {

/// Columns of a text table, each as wide as its widest cell. `numbers`: columns from this one on are flush right.
std::string text_table(const std::vector<std::vector<std::string>>& rows, std::size_t numbers);

}  // namespace autopar::launch
