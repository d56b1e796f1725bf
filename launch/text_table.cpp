#include "launch/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace autopar::launch {

std::string text_table(const std::vector<std::vector<std::string>>& rows, std::size_t numbers) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i < numbers ? fmt::format(" {:<{}} ", row[i], widths[i]) : fmt::format(" {:>{}} ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace autopar::launch
