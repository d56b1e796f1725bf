#include "launch/plan/explain_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "costs/placement.h"
#include "engine/index.h"
#include "launch/plan/diff.h"
#include "launch/plan/json_parts.h"
#include "launch/plan/module_facts.h"
#include "launch/text_table.h"
#include "launch/units.h"

namespace autopar::launch {
namespace {

using costs::Placements;
using engine::ix;
using partition::WrittenPlan;

/// "dp S(0), tp R".
std::string named_placements(const costs::Mesh& mesh, const Placements& placements) {
  std::vector<std::string> parts;
  for (int dim = 0; dim < mesh.rank(); ++dim) {
    parts.push_back(fmt::format("{} {}", mesh.dim_names[ix(dim)], costs::to_string(placements[dim])));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string more_text(std::int64_t ps, std::int64_t of) {
  return fmt::format("{}{} ({:+.3g}%)", ps < 0 ? "-" : "+", time_text(std::abs(ps)),
                     100 * static_cast<double>(ps) / static_cast<double>(std::max<std::int64_t>(of, 1)));
}

class Text {
 public:
  Text(const Replanner& replanner, const ExplainArguments& arguments)
      : replanner_(replanner), arguments_(arguments), plan_(replanner.plan()), mesh_(replanner.plan().mesh) {}

  /// `alone`: nothing else is explained, so that there is room for more.
  std::string say(const Explained& one, bool alone) const {
    const costs::Graph& graph = replanner_.task().problem.graph;
    const costs::Node& first = graph.nodes[ix(one.target.nodes.front())];
    const std::size_t count = one.target.nodes.size();
    std::string text = fmt::format("{} ({}{}{})\n", one.target.name, count > 1 ? fmt::format("{} ", count) : "",
                                   one.target.kind + (count > 1 ? "s, " : ", "), what(first));
    std::vector<std::string> chosen;
    for (const auto& [placements, number] : one.chosen) {
      const std::string how_many = one.chosen.size() > 1 ? fmt::format(" ({})", number) : "";
      chosen.push_back(named_placements(mesh_, placements) + how_many);
    }
    text += fmt::format("  chosen: {}, in a plan of {}\n", fmt::join(chosen, "; "), time_text(plan_.cost_ps));
    return text + alternatives(one) + blocked(one) + not_searched(one) + about_wanted(one, alone);
  }

 private:
  static std::string what(const costs::Node& node) {
    const costs::TensorMeta& tensor = *node.outputs[0];
    const std::string shape =
        short_tensor(fmt::format("{}[{}]", costs::dtype_name(tensor.dtype), fmt::join(tensor.shape, ",")));
    return node.role == costs::Role::kNone ? fmt::format("{} {}", node.op, shape) : shape;
  }

  std::string alternatives(const Explained& one) const {
    std::vector<std::vector<std::string>> rows{{"", "step", "more", "compute", "exposed", "memory"}};
    const auto signed_amount = [](std::int64_t amount, const auto& as_text) {
      return amount == 0 ? "=" : (amount > 0 ? "+" : "-") + as_text(std::abs(amount));
    };
    for (const Alternative& alternative : one.alternatives) {
      if (!alternative.plan) continue;
      const WrittenPlan& other = *alternative.plan;
      const std::int64_t exposed = (other.cost_ps - other.compute_ps) - (plan_.cost_ps - plan_.compute_ps);
      rows.push_back({named_placements(mesh_, alternative.placements), time_text(other.cost_ps),
                      more_text(other.cost_ps - plan_.cost_ps, plan_.cost_ps),
                      signed_amount(other.compute_ps - plan_.compute_ps, time_text), signed_amount(exposed, time_text),
                      signed_amount(other.memory.peak_bytes - plan_.memory.peak_bytes, bytes_text)});
    }
    std::string text;
    if (rows.size() > 1) {
      text += fmt::format("  otherwise, with {}, the best plan found is:\n",
                          one.target.nodes.size() > 1 ? "all of them alike" : "the rest left to the search");
      text += text_table(rows, 1);
    }
    for (const Alternative& alternative : one.alternatives) {
      if (alternative.why_not.empty()) continue;
      text += fmt::format("  {}: {}\n", named_placements(mesh_, alternative.placements), alternative.why_not);
    }
    return text;
  }

  /// A line for each reason, with all mesh dims of which it is one.
  std::string blocked(const Explained& one) const {
    std::vector<std::pair<std::string, std::vector<std::string>>> lines;
    for (const Blocked& fault : one.blocked) {
      const std::string line =
          fmt::format("{} is not possible ({}): {}", costs::to_string(fault.placement), fault.reason, fault.text);
      auto same = std::find_if(lines.begin(), lines.end(), [&](const auto& other) { return other.first == line; });
      if (same == lines.end()) same = lines.insert(lines.end(), {line, {}});
      same->second.push_back(mesh_.dim_names[ix(fault.mesh_dim)]);
    }
    std::string text;
    for (const auto& [line, dims] : lines) text += fmt::format("  {} {}\n", fmt::join(dims, ", "), line);
    return text;
  }

  std::string not_searched(const Explained& one) const {
    const auto is_open = [](const Alternative& alternative) {
      return !alternative.plan && alternative.why_not.empty();
    };
    const auto count = std::count_if(one.alternatives.begin(), one.alternatives.end(), is_open);
    if (count == 0) return "";
    const auto next = std::find_if(one.alternatives.begin(), one.alternatives.end(), is_open);
    return fmt::format("  {} more {} possible and promise{} less, the next {} (--alternatives, --want)\n", count,
                       count == 1 ? "is" : "are", count == 1 ? "s" : "", named_placements(mesh_, next->placements));
  }

  /// The answer to --want.
  std::string about_wanted(const Explained& one, bool alone) const {
    if (arguments_.want.empty()) return "";
    const auto best = std::find_if(one.alternatives.begin(), one.alternatives.end(),
                                   [](const Alternative& alternative) { return alternative.plan.has_value(); });
    if (best == one.alternatives.end()) {
      if (!one.blocked.empty() || !one.alternatives.empty()) return "";
      return fmt::format("  {}: {}\n", arguments_.want, nothing_text(one));
    }
    return !alone ? "" : "\n" + diff_text({replanner_.plan_name(), plan_}, {"with " + arguments_.want, *best->plan});
  }

  std::string nothing_text(const Explained& one) const {
    const Wanted wanted = parse_want(arguments_.want, mesh_);
    const auto is_so = [&](const auto& chosen) { return is_wanted(wanted, chosen.first); };
    if (std::all_of(one.chosen.begin(), one.chosen.end(), is_so)) return "this is what the plan chose";
    return "not possible together: pieces would be empty or uneven, or a pin wants otherwise";
  }

  const Replanner& replanner_;
  const ExplainArguments& arguments_;
  const WrittenPlan& plan_;
  const costs::Mesh& mesh_;
};

Json as_json_of(const Replanner& replanner, const Explained& one) {
  const WrittenPlan& plan = replanner.plan();
  const costs::Graph& graph = replanner.task().problem.graph;
  Json json = {{"name", one.target.name}, {"kind", one.target.kind}};
  for (const std::int32_t node : one.target.nodes) json["nodes"].push_back(graph.nodes[ix(node)].key);
  for (const auto& [placements, count] : one.chosen) {
    json["chosen"].push_back({{"placements", placements_json(plan.mesh, placements)}, {"count", count}});
  }
  json["alternatives"] = Json::array();
  for (const Alternative& alternative : one.alternatives) {
    Json item = {{"placements", placements_json(plan.mesh, alternative.placements)}};
    if (alternative.plan) {
      item["status"] = "searched";
      item["bound_ps"] = alternative.bound;
      item["more_ps"] = alternative.plan->cost_ps - plan.cost_ps;
      item["plan"] = head_json(*alternative.plan);
    } else if (alternative.why_not.empty()) {
      item["status"] = "not_searched";
    } else {
      item["status"] = "no_plan";
      item["why"] = alternative.why_not;
    }
    json["alternatives"].push_back(std::move(item));
  }
  json["blocked"] = Json::array();
  for (const Blocked& fault : one.blocked) {
    json["blocked"].push_back({{"mesh_dim", plan.mesh.dim_names[ix(fault.mesh_dim)]},
                               {"placement", costs::to_string(fault.placement)},
                               {"reason", fault.reason},
                               {"text", fault.text}});
  }
  return json;
}

}  // namespace

std::string explain_choice(Replanner& replanner, const ExplainArguments& arguments, bool as_json) {
  const std::vector<Explained> list = find_alternatives(replanner, arguments);
  if (as_json) {
    Json json = {{"cost_ps", replanner.plan().cost_ps}, {"tensors", Json::array()}};
    for (const Explained& one : list) json["tensors"].push_back(as_json_of(replanner, one));
    return json.dump(1) + "\n";
  }
  std::string text;
  const Text speaker(replanner, arguments);
  for (const Explained& one : list) text += (text.empty() ? "" : "\n") + speaker.say(one, list.size() == 1);
  return text;
}

}  // namespace autopar::launch
