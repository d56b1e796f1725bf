#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "partition/build_network.h"
#include "partition/choices.h"
#include "partition/uses.h"

namespace autopar::partition {

/// What stands behind the network's variables and edges.
struct ModelNetwork::Impl {
  /// An edge of the network, with the same index. Its redistribution makes, of a value, what one reader (`use`: index
  /// into PhaseUses::uses) or all readers of a phase (`use` < 0: the shared copy) get.
  struct Link {
    std::int32_t uses = -1;  ///< index into `uses`
    std::int32_t use = -1;
    std::int32_t from_list = -1;  ///< placement lists behind the edge's rows and columns
    std::int32_t to_list = -1;
  };

  std::vector<PhaseUses> uses;
  std::vector<Link> links;
  std::vector<std::shared_ptr<const Choices>> choices;  ///< per node, shared by nodes of equal signature
  std::vector<std::int32_t> node_variable;              ///< per node
  std::vector<std::int32_t> copy_variable;              ///< per `uses`; -1: a single reader, no copy
  /// Per Graph::outputs: the variable with the output's placements: its own, or that of the tensor it updates.
  std::vector<std::int32_t> output_variable;
  std::vector<std::int32_t> output_list;  ///< placement list of an output's own variable; -1: it has none
  std::vector<PlacementList> lists;
};

}  // namespace autopar::partition
