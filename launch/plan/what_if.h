#pragma once

#include <string>

#include "launch/plan/pins.h"
#include "launch/plan/replan.h"

namespace autopar::launch {

/// What a command says, and the exit code to leave with. An error's text is for stderr.
struct Answer {
  int exit_code = 0;
  std::string text;
};

/// Searches for the best plan under `pins`, over what the plan's search was asked, and compares it with the plan.
/// `output`: where that plan goes, and its constraints beside it; empty: nowhere. Throws io::InputError.
Answer what_if(Replanner& replanner, const PinArguments& pins, const std::string& output, bool as_json);

/// The best plan under other constraints (a recipe), on the plan's mesh. Throws io::InputError. Without a plan, the
/// answer says why.
struct PlanOrAnswer {
  std::optional<partition::WrittenPlan> plan;
  Answer why_not;
};
PlanOrAnswer plan_under(Replanner& replanner, const std::string& constraints, const std::string& text);

}  // namespace autopar::launch
