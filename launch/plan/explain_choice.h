#pragma once

#include <string>

#include "launch/plan/alternatives.h"
#include "launch/plan/replan.h"

namespace autopar::launch {

/// What the plan chose, and what else there was: for each alternative the best plan in which that is so, searched for;
/// for what is not possible, why. Throws io::InputError.
std::string explain_choice(Replanner& replanner, const ExplainArguments& arguments, bool as_json);

}  // namespace autopar::launch
