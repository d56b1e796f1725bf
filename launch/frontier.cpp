#include "launch/frontier.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/write_plan.h"
#include "launch/text_table.h"
#include "launch/units.h"

namespace autopar::launch {
namespace {

/// Of the peak of one plan, what the next one may need.
constexpr std::int64_t kNextPercent = 90;

/// "plan.json" and "2" make "plan.2.json".
std::string with_part(const std::string& output, const std::string& part) {
  const std::string ending = ".json";
  if (!output.ends_with(ending)) return output + "." + part;
  return output.substr(0, output.size() - ending.size()) + "." + part + ending;
}

}  // namespace

Frontier search_frontier(const Task& task, const engine::Options& options, partition::SharedSolver& solver,
                         partition::PlanSearchResult fastest) {
  partition::Problem problem = task.problem;
  Frontier frontier;
  for (partition::PlanSearchResult found = std::move(fastest); found.plan;) {
    partition::PlanSearchInput input{problem, *task.redistributor, &task.model};
    input.points = found.points;
    const std::int64_t peak = found.plan->memory.peak_bytes;
    // What holds of more memory holds of less.
    const engine::Cost bound = found.bound;
    std::erase_if(frontier.points,
                  [&](const Frontier::Point& before) { return before.found.plan->cost_ps >= found.plan->cost_ps; });
    frontier.points.push_back({problem.pins.memory_limit_bytes, std::move(found)});
    problem.pins.memory_limit_bytes = peak / 100 * kNextPercent;
    found = {};
    if (solver.is_out_of_time()) {
      found.status = engine::Status::kLimitReached;
    } else {
      found = partition::search_plan(input, options, solver);
    }
    found.bound = std::max(found.bound, bound);
    frontier.last_status = found.status;
  }
  frontier.last_limit_bytes = problem.pins.memory_limit_bytes;
  return frontier;
}

std::string frontier_plan_path(const std::string& output, std::size_t index) {
  return index == 0 ? output : with_part(output, std::to_string(index + 1));
}

std::string frontier_path(const std::string& output) { return with_part(output, "frontier"); }

std::string format_frontier(const Frontier& frontier, const std::string& output) {
  using Json = nlohmann::ordered_json;
  Json points = Json::array();
  for (std::size_t i = 0; i < frontier.points.size(); ++i) {
    const Frontier::Point& point = frontier.points[i];
    const partition::Plan& plan = *point.found.plan;
    points.push_back({{"plan", std::filesystem::path(frontier_plan_path(output, i)).filename()},
                      {"memory_limit_bytes", point.memory_limit_bytes},
                      {"peak_bytes", plan.memory.peak_bytes},
                      {"cost_ps", plan.cost_ps},
                      {"bound_ps", point.found.bound},
                      {"status", io::status_name(point.found.status)}});
  }
  const Json last{{"memory_limit_bytes", frontier.last_limit_bytes}, {"status", io::status_name(frontier.last_status)}};
  return Json{{"format", "autopar-frontier"}, {"version", 1}, {"points", points}, {"no_plan_within", last}}.dump(1) +
         "\n";
}

std::string frontier_table(const Frontier& frontier, const std::string& output) {
  std::vector<std::vector<std::string>> rows{{"plan", "memory at the peak", "step", "at most above the optimum"}};
  for (std::size_t i = 0; i < frontier.points.size(); ++i) {
    const partition::PlanSearchResult& found = frontier.points[i].found;
    rows.push_back({frontier_plan_path(output, i), bytes_text(found.plan->memory.peak_bytes),
                    time_text(found.plan->cost_ps),
                    fmt::format("{:.2g}%", 100 * io::relative_gap(found.plan->cost_ps, found.bound))});
  }
  const std::string limit = bytes_text(frontier.last_limit_bytes);
  const std::string end =
      frontier.last_status == engine::Status::kInfeasible     ? fmt::format("No plan needs at most {}.", limit)
      : frontier.last_status == engine::Status::kLimitReached ? "There may be more: the time was over."
                                                              : fmt::format("None was found within {}.", limit);
  return text_table(rows, 1) + end + "\n";
}

}  // namespace autopar::launch
