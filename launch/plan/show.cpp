#include "launch/plan/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/index.h"
#include "io/choices.h"
#include "io/plan_totals.h"
#include "launch/plan/communication.h"
#include "launch/plan/fold_modules.h"
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

std::vector<FoldedModules<ModuleFacts>> fold(const WrittenPlan& plan) {
  return fold_modules(module_facts(plan), [](const ModuleFacts& module) {
    return fmt::format("{}\n{}\n{}", fmt::join(module.parameters, "\n"), fmt::join(module.words, "\n"),
                       module.num_again);
  });
}

std::string head_text(const WrittenPlan& plan) {
  std::string text = subject_text(plan) + "\n\n";
  text += fmt::format(
      "Predicted step  {}, {}\n", time_text(plan.cost_ps),
      plan.status == "random" ? "a random plan" : proof_text(plan.cost_ps, plan.bound_ps, plan.status == "optimal"));
  return text + fmt::format("Time            {}\n", times_text(plan.cost_ps, plan.compute_ps, plan.communication_ps));
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
  for (const FoldedModules<ModuleFacts>& module : fold(plan)) {
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

std::string subject_text(const WrittenPlan& plan) {
  return fmt::format("{} on {} device{} ({}) of {}", plan.model_name, plan.mesh.num_devices(),
                     plan.mesh.num_devices() == 1 ? "" : "s", mesh_text(plan.mesh), plan.cluster_name);
}

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
  for (const FoldedModules<ModuleFacts>& module : fold(plan)) {
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
