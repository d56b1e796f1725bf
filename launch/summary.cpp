#include "launch/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "costs/placement.h"
#include "io/plan_totals.h"
#include "launch/explain.h"
#include "launch/field_words.h"
#include "launch/fold_names.h"
#include "launch/text_table.h"
#include "launch/units.h"

namespace autopar::launch {
namespace {

double ms(std::int64_t ps) { return static_cast<double>(ps) * 1e-9; }

std::string head(const partition::Problem& problem, engine::Cost cost, const io::PlanResult& result,
                 const io::RunInfo& run) {
  std::string text = fmt::format("{} on {} devices ({}) of {} ({})\n\n", problem.graph.name, problem.mesh.num_devices(),
                                 mesh_text(problem.mesh), problem.cluster.name, problem.cluster.device.name);
  text += fmt::format("Predicted step  {}, {}\n", time_text(cost),
                      proof_text(cost, result.bound, result.status == engine::Status::kOptimal));
  text += fmt::format("Search          {:.2f} s ({} rank{}, {} thread{} each; reading {:.2f} s, pricing {:.2f} s)\n",
                      run.solve_s, run.ranks, run.ranks == 1 ? "" : "s", run.threads, run.threads == 1 ? "" : "s",
                      run.read_s, run.build_s);
  return text;
}

std::string communication(const partition::Plan& plan) {
  std::vector<std::vector<std::string>> rows{{"mesh dims", "collective", "count", "bytes", "ms"}};
  for (const io::CommunicationTotal& total : io::communication_totals(plan)) {
    rows.push_back({fmt::format("{}", fmt::join(io::mesh_dim_names(total.mesh_dims, plan.mesh), "+")),
                    std::string(costs::step_name(total.kind)), std::to_string(total.count), bytes_text(total.bytes),
                    fmt::format("{:.3f}", ms(total.time_ps))});
  }
  if (rows.size() == 1) return "  no collectives\n";
  return text_table(rows, 2);
}

std::string parameters(const costs::Graph& graph, const partition::Plan& plan) {
  std::vector<NamedFacts> items;
  std::map<std::string, std::vector<std::string>> cells;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const costs::Node& node = graph.nodes[i];
    if (node.role != costs::Role::kParameter) continue;
    const costs::TensorMeta& tensor = *node.outputs[0];
    std::vector<std::string> facts{
        fmt::format("{}[{}]", short_dtype(costs::dtype_name(tensor.dtype)), fmt::join(tensor.shape, ","))};
    for (int dim = 0; dim < plan.mesh.rank(); ++dim) {
      facts.push_back(fmt::format("{}: {}", plan.mesh.dim_names[static_cast<std::size_t>(dim)],
                                  costs::to_string(plan.nodes[i].outputs[0][dim])));
    }
    std::string key = fmt::format("{}", fmt::join(facts, " "));
    cells.emplace(key, std::move(facts));
    items.push_back({node.name, std::move(key)});
  }
  std::vector<std::vector<std::string>> rows;
  for (const FoldedName& folded : fold_names(items)) {
    std::vector<std::string> row{folded.name};
    const auto& facts = cells.at(folded.facts);
    row.insert(row.end(), facts.begin(), facts.end());
    rows.push_back(std::move(row));
  }
  const std::size_t num_columns = rows.empty() ? 0 : rows.front().size();
  return text_table(rows, num_columns);
}

std::string memory(const costs::Graph& graph, const partition::Plan& plan) {
  const std::int32_t node = plan.memory.peak_node;
  return fmt::format("Memory          {} of {} per device at the peak, {}\n                {}\n",
                     bytes_text(plan.memory.peak_bytes), bytes_text(plan.memory_limit_bytes),
                     node < 0 ? "the optimizer's step" : graph.nodes[static_cast<std::size_t>(node)].key,
                     memory_parts(plan.memory));
}

}  // namespace

std::string proof_text(engine::Cost cost, engine::Cost bound, bool is_complete) {
  if (cost <= bound) return "proven optimal";
  const std::string limit = is_complete ? "" : "not proven optimal, ";
  const double ratio = static_cast<double>(cost) / static_cast<double>(std::max<engine::Cost>(bound, 1));
  if (bound <= 0) return limit + "no lower bound yet";
  if (ratio >= 2) return fmt::format("{}at most {:.{}f} times the optimum", limit, ratio, ratio < 10 ? 1 : 0);
  return fmt::format("{}at most {:.3g}% above the optimum", limit, 100 * (ratio - 1));
}

std::string times_text(engine::Cost cost_ps, engine::Cost compute_ps, engine::Cost communication_ps) {
  const double total = std::max(1.0, static_cast<double>(cost_ps));
  const auto percent = [&](engine::Cost ps) { return 100 * static_cast<double>(ps) / total; };
  const engine::Cost exposed_ps = cost_ps - compute_ps;
  const engine::Cost hidden_ps = communication_ps - exposed_ps;
  const std::string text = fmt::format("{} compute ({:.1f}%), {} communication ({:.1f}%)", time_text(compute_ps),
                                       percent(compute_ps), time_text(exposed_ps), percent(exposed_ps));
  return hidden_ps > 0 ? fmt::format("{}; {} more hide behind compute", text, time_text(hidden_ps)) : text;
}

std::string memory_parts(const partition::PlanMemory& memory) {
  std::vector<std::string> parts;
  for (std::size_t kind = 0; kind < partition::kNumMemoryKinds; ++kind) {
    const std::int64_t bytes = memory.peak_parts[kind];
    if (bytes == 0) continue;
    parts.push_back(
        fmt::format("{} {}", partition::memory_kind_name(static_cast<partition::MemoryKind>(kind)), bytes_text(bytes)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string summary(const partition::Problem& problem, const partition::Plan& plan, const io::PlanResult& result,
                    const io::RunInfo& run) {
  std::string text = head(problem, plan.cost_ps, result, run);
  text += fmt::format("Time            {}\n", times_text(plan.cost_ps, plan.compute_ps, plan.communication_ps));
  text += memory(problem.graph, plan);
  text += "\nCommunication of one device\n" + communication(plan);
  text += "\nParameters\n" + parameters(problem.graph, plan);
  text += "\nWhat each mesh dim does\n";
  for (int dim = 0; dim < plan.mesh.rank(); ++dim) {
    const auto index = static_cast<std::size_t>(dim);
    std::vector<std::string> sentences = {"one device, nothing to split"};
    if (plan.mesh.shape[index] > 1) sentences = explain_mesh_dim(problem, plan, dim);
    text += fmt::format("  {} ({})\n    {}\n", plan.mesh.dim_names[index], plan.mesh.shape[index],
                        fmt::join(sentences, "\n    "));
  }
  return text;
}

std::vector<std::string> unknown_op_warnings(const Task& task) {
  std::vector<std::string> warnings;
  for (const std::string& op : task.model.unknown_ops) {
    const auto& nodes = task.problem.graph.nodes;
    const auto count =
        std::count_if(nodes.begin(), nodes.end(), [&](const costs::Node& node) { return node.op == op; });
    warnings.push_back(fmt::format("no sharding rule for {}: its {} node{} run replicated on all devices", op, count,
                                   count == 1 ? "" : "s"));
  }
  return warnings;
}

}  // namespace autopar::launch
