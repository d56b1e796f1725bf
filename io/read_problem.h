#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/cost_network.h"

namespace autopar::io {

/// Costs from here on stand for "forbidden" in cost-table files.
inline constexpr std::int64_t kForbiddenInFile = 1'000'000'000'000'000'000;

/// A cost-table file (docs/cost-tables.md). Variable i is node i; edges stand in the file's order.
struct TableProblem {
  std::string name;
  engine::CostNetwork network;
};

/// Whether a file's text is a cost table: told by its content, not by its name.
bool is_problem(std::string_view text);

/// Reads a cost table; `file` is for messages. Equal lists of costs are kept once, so that the network takes little
/// more than what is different in the file. An edge from a node to itself becomes a cost of the node, and a usage that
/// can never count (it is 0, at no time, or there is no limit) none. Throws InputError.
TableProblem read_problem(const std::string& file, std::string_view text);

}  // namespace autopar::io
