#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "costs/mesh.h"
#include "costs/placement.h"
#include "engine/cost_network.h"
#include "launch/plan/replan.h"
#include "launch/plan/targets.h"
#include "partition/written_plan.h"

namespace autopar::launch {

struct ExplainArguments {
  std::string name;      ///< of a parameter, node or module (targets.h)
  std::string want;      ///< the placements that are asked about: "tp=R", "S(0),R"; empty: the most promising
  int alternatives = 3;  ///< most that are searched for, of each tensor
};

/// What was asked for on each mesh dim.
using Wanted = std::array<std::optional<costs::Placement>, costs::kMaxMeshDims>;

/// An alternative, with the best plan in which the tensor is so placed.
struct Alternative {
  costs::Placements placements;
  engine::Cost estimate =
      engine::kForbidden;  ///< how much more a plan costs, by message passing; kForbidden: not known
  std::optional<partition::WrittenPlan> plan;
  engine::Cost bound = 0;
  std::string why_not;  ///< empty: there is a plan, or it was not searched for
};

/// A placement that is not possible on a mesh dim, whatever is chosen on the others.
struct Blocked {
  int mesh_dim = 0;
  costs::Placement placement;
  std::string reason;  ///< "rule", "size", "pin"
  std::string text;
};

/// What was chosen for a target, and what else there is.
struct Explained {
  Target target;
  std::map<costs::Placements, int> chosen;  ///< and how many are so
  std::vector<Alternative> alternatives;
  std::vector<Blocked> blocked;
};

/// Reads ExplainArguments::want. Throws io::InputError.
Wanted parse_want(const std::string& text, const costs::Mesh& mesh);
bool is_wanted(const Wanted& wanted, const costs::Placements& placements);

/// What the plan chose for each target, what else each could be, and for the most promising the best plan in which it
/// is so, the cheapest first. Throws io::InputError.
std::vector<Explained> find_alternatives(Replanner& replanner, const ExplainArguments& arguments);

}  // namespace autopar::launch
