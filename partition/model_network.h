#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "partition/build_network.h"
#include "partition/choices.h"
#include "partition/holdings.h"
#include "partition/point_usage.h"
#include "partition/uses.h"
#include "partition/windows.h"

namespace autopar::partition {

/// What stands behind the network's variables and edges.
struct ModelNetwork::Impl {
  /// A variable's choice between the placements of a list.
  struct LinkEnd {
    std::int32_t variable = -1;
    std::int32_t list = -1;
    std::int32_t projection = -1;
  };
  /// Where a redistribution may run. It makes, of a value, what one reader (`use`: index into PhaseUses::uses), all
  /// readers of a phase (PointUsage::kCopy), both phases (PointUsage::kKept) or none (PointUsage::kSaved) get.
  struct Link {
    std::int32_t uses = -1;  ///< index into `uses`
    std::int32_t use = -1;
    LinkEnd from;
    LinkEnd to;
    std::int32_t edge = -1;  ///< of the network; -1: a variable over pairs stands for it
    std::int32_t pair_variable = -1;
    std::int32_t pair_from = -1;  ///< the projections of the pairs
    std::int32_t pair_to = -1;
  };

  /// When the redistribution of a link is under way, if it starts from what is not kept or in the backward; that of a
  /// kept one, of a copy for all readers, or for a value's only one, can be.
  Flight flight(const Link& link) const {
    const bool is_first = link.use == PointUsage::kKept || link.use == PointUsage::kCopy ||
                          (link.use >= 0 && uses[static_cast<std::size_t>(link.uses)].uses.size() == 1);
    return windows && is_first ? windows->flight(link.uses) : Flight{};
  }
  /// Whether that holds for a link that starts from state `from`.
  bool may_fly(const Link& link, const costs::Placements& from) const {
    return !is_kept(from) || uses[static_cast<std::size_t>(link.uses)].phase == costs::Phase::kBackward;
  }

  std::vector<PhaseUses> uses;
  std::optional<Windows> windows;  ///< nothing where the problem is without overlap
  std::vector<Link> links;
  std::vector<std::shared_ptr<const Choices>> choices;  ///< per node, shared by nodes of equal signature
  std::vector<std::int32_t> node_variable;              ///< per node
  std::vector<std::int32_t> time_points;                ///< behind the network's
  /// Per Graph::outputs: the variable with the output's placements: its own, or that of the tensor it updates.
  std::vector<std::int32_t> output_variable;
  std::vector<std::int32_t> output_list;  ///< placement list of an output's own variable; -1: it has none
  std::vector<PlacementList> lists;
};

}  // namespace autopar::partition
