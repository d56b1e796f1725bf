#include "launch/plan/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/index.h"
#include "io/choices.h"
#include "io/plan_totals.h"
#include "launch/fold_names.h"
#include "launch/plan/communication.h"
#include "launch/plan/json_parts.h"
#include "launch/plan/module_facts.h"
#include "launch/summary.h"
#include "launch/text_table.h"
#include "launch/units.h"

namespace autopar::launch {
namespace {

using engine::ix;
using partition::WrittenPlan;

double ms(std::int64_t ps) { return static_cast<double>(ps) * 1e-9; }

/// Modules of equal facts whose paths differ in numbers only.
struct FoldedModule {
  std::string name;
  ModuleFacts facts;  ///< of all of them
  std::vector<std::string> paths;
};

std::vector<FoldedModule> fold(const std::vector<ModuleFacts>& modules) {
  std::vector<NamedFacts> items;
  for (const ModuleFacts& module : modules) {
    items.push_back({module_name(module.path), fmt::format("{}\n{}\n{}", fmt::join(module.parameters, "\n"),
                                                           fmt::join(module.words, "\n"), module.num_again)});
  }
  std::vector<FoldedModule> folded;
  for (const FoldedName& group : fold_names(items)) {
    FoldedModule& one = folded.emplace_back(FoldedModule{group.name, modules[group.members.front()], {}});
    for (const std::size_t member : group.members) one.paths.push_back(modules[member].path);
  }
  return folded;
}

std::string head_text(const WrittenPlan& plan) {
  const double step = std::max(1.0, static_cast<double>(plan.cost_ps));
  const auto percent = [&](std::int64_t ps) { return 100 * static_cast<double>(ps) / step; };
  const std::int64_t exposed_ps = plan.cost_ps - plan.compute_ps;
  std::string text = fmt::format("{} on {} device{} ({}) of {}\n\n", plan.model_name, plan.mesh.num_devices(),
                                 plan.mesh.num_devices() == 1 ? "" : "s", mesh_text(plan.mesh), plan.cluster_name);
  text += fmt::format(
      "Predicted step  {}, {}\n", time_text(plan.cost_ps),
      plan.status == "random" ? "a random plan" : proof_text(plan.cost_ps, plan.bound_ps, plan.status == "optimal"));
  text += fmt::format("Time            {} compute ({:.1f}%), {} communication ({:.1f}%)", time_text(plan.compute_ps),
                      percent(plan.compute_ps), time_text(exposed_ps), percent(exposed_ps));
  const std::int64_t hidden_ps = plan.communication_ps - exposed_ps;
  text += hidden_ps > 0 ? fmt::format("; {} more hide behind compute\n", time_text(hidden_ps)) : "\n";
  return text;
}

std::string memory_text(const WrittenPlan& plan) {
  const partition::PlanMemory& memory = plan.memory;
  std::vector<std::vector<std::string>> rows;
  for (std::size_t kind = 0; kind < partition::kNumMemoryKinds; ++kind) {
    rows.push_back({std::string(partition::memory_kind_name(static_cast<partition::MemoryKind>(kind))),
                    bytes_text(memory.peak_parts[kind])});
  }
  return fmt::format("\nMemory of one device at the peak: {} of {}, {}\n{}", bytes_text(memory.peak_bytes),
                     bytes_text(plan.memory_limit_bytes),
                     memory.peak_node < 0 ? "the optimizer's step" : plan.nodes[ix(memory.peak_node)].key,
                     text_table(rows, 1));
}

std::string communication_text(const WrittenPlan& plan) {
  std::vector<std::vector<std::string>> rows{
      {"mesh dims", "collective", "phase", "count", "bytes", "ms", "exposed ms"}};
  for (const CommunicationRow& row : communication_rows(plan, partition::simulate(plan))) {
    rows.push_back({fmt::format("{}", fmt::join(io::mesh_dim_names(row.mesh_dims, plan.mesh), "+")),
                    std::string(costs::step_name(row.kind)), std::string(io::name_of(row.phase, io::kPhases)),
                    std::to_string(row.count), bytes_text(row.bytes), fmt::format("{:.3f}", ms(row.time_ps)),
                    fmt::format("{:.3f}", ms(row.exposed_ps))});
  }
  const std::string title = "\nCommunication of one device\n";
  return title + (rows.size() == 1 ? "  no collectives\n" : text_table(rows, 3));
}

std::string modules_text(const WrittenPlan& plan) {
  std::string text = "\nModules\n";
  for (const FoldedModule& module : fold(module_facts(plan))) {
    std::vector<std::string> dims;
    for (std::size_t dim = 0; dim < module.facts.words.size(); ++dim) {
      dims.push_back(fmt::format("{}: {}", plan.mesh.dim_names[dim], module.facts.words[dim]));
    }
    text += "  " + module.name;
    if (!module.facts.parameters.empty()) text += fmt::format(" ({})", fmt::join(module.facts.parameters, ", "));
    text += fmt::format("\n    {}\n", fmt::join(dims, "\n    "));
    if (module.facts.num_again > 0) {
      text += fmt::format("    {} op{} again in the backward\n", module.facts.num_again,
                          module.facts.num_again == 1 ? " runs" : "s run");
    }
  }
  return text;
}

bool has_reads(const WrittenPlan& plan) {
  return std::any_of(plan.nodes.begin(), plan.nodes.end(), [](const auto& node) { return !node.reads.empty(); });
}

}  // namespace

std::string show_text(const WrittenPlan& plan) {
  std::string text = head_text(plan) + memory_text(plan) + communication_text(plan) + modules_text(plan);
  if (!has_reads(plan)) {
    text +=
        "\nAn older autopar-search wrote this plan, without what each op reads: how matmuls are cut is not told.\n"
        "Search it again to see that.\n";
  }
  return text;
}

std::string show_json(const WrittenPlan& plan) {
  Json json = head_json(plan);
  json["communication"] = communication_json(plan, communication_rows(plan, partition::simulate(plan)));
  Json list = Json::array();
  for (const FoldedModule& module : fold(module_facts(plan))) {
    Json dims = Json::object();
    for (std::size_t dim = 0; dim < module.facts.words.size(); ++dim) {
      dims[plan.mesh.dim_names[dim]] = module.facts.words[dim];
    }
    list.push_back({{"name", module.name},
                    {"paths", module.paths},
                    {"parameters", module.facts.parameters},
                    {"mesh_dims", dims},
                    {"recomputed", module.facts.num_again}});
  }
  json["modules"] = list;
  return json.dump(1) + "\n";
}

}  // namespace autopar::launch
