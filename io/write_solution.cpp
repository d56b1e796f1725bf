#include "io/write_solution.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace autopar::io {

std::string choices_text(const engine::Assignment& choices) { return fmt::format("[{}]", fmt::join(choices, ", ")); }

std::string format_solution(const engine::Solution& solution, const SolutionSource& source,
                            const std::vector<TimelinePoint>& timeline, const std::optional<RunInfo>& run) {
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string text = fmt::format("{{\n\"format\": \"autopar-solution\",\n\"version\": 1,\n\"producer\": {},\n",
                                 quoted(source.producer));
  text += fmt::format("\"problem\": {{\"name\": {}, \"hash\": {}}},\n", quoted(source.problem_name),
                      quoted(source.problem_hash));
  text += fmt::format("\"status\": \"{}\",\n\"cost\": {},\n\"bound\": {},\n\"gap\": {:.6g},\n\"choices\": {}",
                      status_name(solution.status), solution.cost, solution.bound,
                      relative_gap(solution.cost, solution.bound), choices_text(solution.assignment));
  if (run) {
    text += ",\n\"timeline\": [";
    for (std::size_t i = 0; i < timeline.size(); ++i) {
      const TimelinePoint& point = timeline[i];
      text += fmt::format("{}\n{{\"seconds\": {:.3f}, \"cost\": {}, \"bound\": {}}}", i > 0 ? "," : "", point.seconds,
                          point.cost < engine::kForbidden ? std::to_string(point.cost) : "null", point.bound);
    }
    const engine::Stats& stats = solution.stats;
    text += fmt::format("\n],\n\"run\": {{\"ranks\": {}, \"threads\": {}, \"read_s\": {:.3f}, \"solve_s\": {:.3f}, ",
                        run->ranks, run->threads, run->read_s, run->solve_s);
    text += fmt::format("\"presolve_s\": {:.3f}, \"bound_s\": {:.3f}, \"search_s\": {:.3f}, ", stats.presolve_s,
                        stats.bound_s, stats.search_s);
    text += fmt::format(
        "\"variables\": {}, \"variables_after_presolve\": {}, \"values_after_fixing\": {}, \"branch_nodes\": {}}}",
        stats.variables, stats.variables_after_presolve, stats.values_after_fixing, stats.branch_nodes);
  }
  return text + "\n}\n";
}

}  // namespace autopar::io
