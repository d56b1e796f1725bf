#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/cost_network.h"

namespace autopar::engine {

/// A network whose rows of equal copies (the layers of a model, or groups of them that follow one another) are short:
/// of each row only the first two and the last two copies are left, joined as neighbours are.
///
/// Costs that were moved between the tables of the short network can be moved in the same way in all copies that are
/// gone, so a bound of the whole costs no more sweeps than one of the short network.
struct ShortNetwork {
  std::vector<Edge> edges;                ///< of the variables that are left
  std::vector<std::int32_t> variable_of;  ///< per variable of the whole: the one that stands for it, itself if left
  std::vector<std::int32_t> edge_of;      ///< per edge of the whole: the one of `edges` that stands for it
  std::vector<std::int32_t> alike;        ///< per variable: that of the last copy but one if it is of the second
};

/// Nothing if the network has no row of copies that is long enough to gain by it.
std::optional<ShortNetwork> shorten(const CostNetwork& network);

}  // namespace autopar::engine
