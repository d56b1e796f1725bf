#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace autopar::testing {

/// Checks a plan.json against its model.json with nothing but the two documents: every tensor that an op reads has the
/// placements that the plan says, by its producer, by what is saved of it for the backward, or by redistributions whose
/// steps lead there; gradients have their parameters' placements; totals are the sums of their parts; the memory's peak
/// is within the limit. Returns what is wrong, empty if nothing is.
std::vector<std::string> check_plan(const nlohmann::json& model, const nlohmann::json& plan);

}  // namespace autopar::testing
