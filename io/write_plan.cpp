#include "io/write_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "costs/placement.h"
#include "io/choices.h"
#include "io/plan_totals.h"

namespace autopar::io {
namespace {

using costs::Placements;

constexpr std::array<std::string_view, 5> kStatusNames = {"optimal", "limit_reached", "infeasible", "no_solution",
                                                          "not_proven"};
/// `text` as a JSON string.
std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

/// Writes straight into one buffer: a DOM of a large plan would cost more than the search's own bookkeeping.
class PlanWriter {
 public:
  PlanWriter(const partition::Problem& problem, const partition::Plan& plan)
      : problem_(problem), plan_(plan), graph_(problem.graph) {}

  std::string write(const PlanResult& result, const PlanSource& source, const std::optional<RunInfo>& run) {
    write_head(result, source);
    write_totals();
    write_parameters(source);
    write_nodes();
    write_redistributions();
    write_outputs();
    if (run) write_run(result.stats, *run);
    put("\n}}\n");
    return fmt::to_string(buffer_);
  }

 private:
  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
  }

  template <typename List, typename PutItem>
  void put_list(const List& list, std::string_view separator, const PutItem& put_item) {
    bool first = true;
    for (const auto& item : list) {
      if (!first) put("{}", separator);
      first = false;
      put_item(item);
    }
  }

  void put_strings(const std::vector<std::string>& list) {
    put("[");
    put_list(list, ", ", [&](const std::string& item) { put("{}", quoted(item)); });
    put("]");
  }

  void put_placements(const Placements& placements) {
    put("[");
    for (int i = 0; i < plan_.mesh.rank(); ++i) {
      put("{}\"{}\"", i > 0 ? ", " : "", costs::to_string(placements[i]));
    }
    put("]");
  }

  void put_mesh(const costs::Mesh& mesh) {
    put("{{\"shape\": [{}], \"dim_names\": ", fmt::join(mesh.shape, ", "));
    put_strings(mesh.dim_names);
    put("}}");
  }

  void put_value(costs::ValueRef value) {
    put("\"value\": {}, \"output\": {}", quoted(graph_.nodes[static_cast<std::size_t>(value.node)].key), value.output);
  }

  void write_head(const PlanResult& result, const PlanSource& source) {
    put("{{\n\"format\": \"autopar-plan\",\n\"version\": 1,\n\"producer\": {},\n", quoted(source.producer));
    put("\"model\": {{\"name\": {}, \"graph_hash\": {}, \"hash\": {}}},\n", quoted(graph_.name), quoted(graph_.hash),
        quoted(source.model_hash));
    put("\"mesh\": ");
    put_mesh(plan_.mesh);
    put(",\n\"cluster\": {{\"name\": {}, \"hash\": {}}},\n", quoted(problem_.cluster.name),
        quoted(source.cluster_hash));
    put("\"constraints_hash\": {},\n", source.constraints_hash.empty() ? "null" : quoted(source.constraints_hash));
    put("\"overlap\": \"{}\",\n", problem_.has_overlap ? "model" : "none");
    put("\"result\": {{\"status\": \"{}\", \"cost_ps\": {}, \"bound_ps\": {}, \"gap\": {:.6g}}},\n",
        source.is_random ? "random" : status_name(result.status), plan_.cost_ps, result.bound,
        relative_gap(plan_.cost_ps, result.bound));
    if (!result.meshes.empty()) write_meshes(result.meshes);
  }

  void write_meshes(const std::vector<MeshOutcome>& meshes) {
    put("\"meshes\": [\n");
    put_list(meshes, ",\n", [&](const MeshOutcome& mesh) {
      put("{{\"mesh\": ");
      put_mesh(mesh.mesh);
      if (!mesh.left_out.empty()) return put(", \"left_out\": {}}}", quoted(mesh.left_out));
      put(", \"cost_ps\": {}", mesh.cost ? std::to_string(*mesh.cost) : "null");
      put(", \"bound_ps\": {}}}", mesh.bound < engine::kForbidden ? std::to_string(mesh.bound) : "null");
    });
    put("\n],\n");
  }

  void write_totals() {
    put("\"totals\": {{\"cost_ps\": {}, \"compute_ps\": {}, \"communication_ps\": {}, ", plan_.cost_ps,
        plan_.compute_ps, plan_.communication_ps);
    put("\"exposed_ps\": {}, ", plan_.cost_ps - plan_.compute_ps);
    put("\"parameter_bytes\": {}, \"memory_limit_bytes\": {}, ", plan_.parameter_bytes, plan_.memory_limit_bytes);
    write_peak();
    put("\"communication\": [\n");
    put_list(communication_totals(plan_), ",\n", [&](const CommunicationTotal& total) {
      put("{{\"collective\": \"{}\", \"mesh_dims\": ", costs::step_name(total.kind));
      put_strings(mesh_dim_names(total.mesh_dims, plan_.mesh));
      put(", \"count\": {}, \"bytes\": {}, \"time_ps\": {}}}", total.count, total.bytes, total.time_ps);
    });
    put("\n]}},\n");
  }

  void write_peak() {
    const partition::PlanMemory& memory = plan_.memory;
    put("\"peak\": {{\"bytes\": {}, \"node\": {}", memory.peak_bytes,
        memory.peak_node < 0 ? "null" : quoted(graph_.nodes[static_cast<std::size_t>(memory.peak_node)].key));
    for (std::size_t kind = 0; kind < partition::kNumMemoryKinds; ++kind) {
      put(", \"{}_bytes\": {}", partition::memory_kind_name(static_cast<partition::MemoryKind>(kind)),
          memory.peak_parts[kind]);
    }
    put("}}, ");
  }

  void write_parameters(const PlanSource& source) {
    std::vector<std::pair<const std::string*, std::size_t>> names;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].role != costs::Role::kParameter) continue;
      names.emplace_back(&graph_.nodes[i].name, i);
      for (const std::string& alias : source.aliases[i]) names.emplace_back(&alias, i);
    }
    put("\"parameters\": {{\n");
    put_list(names, ",\n", [&](const auto& name) {
      put("{}: ", quoted(*name.first));
      put_placements(plan_.nodes[name.second].outputs[0]);
    });
    put("\n}},\n");
  }

  void write_nodes() {
    put("\"recompute\": ");
    put_strings(plan_.recomputed);
    put(",\n");
    put("\"nodes\": {{\n");
    std::size_t index = 0;
    put_list(plan_.nodes, ",\n", [&](const partition::NodeChoice& choice) {
      const costs::Node& node = graph_.nodes[index];
      const std::int64_t memory_bytes = plan_.memory.node_bytes[index++];
      put("{}: {{\"op\": {}, ", quoted(node.key), quoted(node.op));
      if (node.role == costs::Role::kNone) put("\"phase\": \"{}\", ", name_of(node.phase, kPhases));
      if (!node.inputs.empty()) put_reads(node);
      put("\"inputs\": [");
      put_list(choice.inputs, ", ", [&](const Placements& input) { put_placements(input); });
      put("], \"outputs\": [");
      std::size_t output = 0;
      put_list(choice.outputs, ", ", [&](const Placements& placements) {
        if (node.outputs[output++]) {
          put_placements(placements);
        } else {
          put("null");
        }
      });
      put("], \"tensors\": [");
      put_list(node.outputs, ", ", [&](const std::optional<costs::TensorMeta>& tensor) { put_tensor(tensor); });
      put("], \"compute_ps\": {}", choice.compute_ps);
      if (node.role == costs::Role::kNone) put(", \"memory_bytes\": {}", memory_bytes);
      put_programs(choice);
      put("}}");
    });
    put("\n}},\n");
  }

  /// Most nodes have one output, so that the key alone says which value it is.
  void put_reads(const costs::Node& node) {
    put("\"reads\": [");
    put_list(node.inputs, ", ", [&](costs::ValueRef value) {
      const std::string key = quoted(graph_.nodes[static_cast<std::size_t>(value.node)].key);
      if (value.output == 0) return put("{}", key);
      put("[{}, {}]", key, value.output);
    });
    put("], ");
  }

  void put_tensor(const std::optional<costs::TensorMeta>& tensor) {
    if (tensor) {
      put("\"{}[{}]\"", costs::dtype_name(tensor->dtype), fmt::join(tensor->shape, ","));
    } else {
      put("null");
    }
  }

  void put_programs(const partition::NodeChoice& choice) {
    const auto end = choice.programs.begin() + plan_.mesh.rank();
    if (std::all_of(choice.programs.begin(), end, [](const auto& program) { return program.name.empty(); })) return;
    put(", \"programs\": [");
    put_list(std::span(choice.programs.begin(), end), ", ", [&](const auto& program) { put("\"{}\"", program.name); });
    put("]");
    if (choice.all_reduces.empty()) return;
    put(", \"collectives\": [");
    put_list(choice.all_reduces, ", ", [&](const costs::ProgramAllReduce& one) {
      put("{{\"step\": \"all_reduce\", \"mesh_dims\": ");
      put_strings(mesh_dim_names(1U << one.mesh_dim, plan_.mesh));
      put(", \"dtype\": \"{}\", \"bytes\": {}, \"time_ps\": {}}}", costs::dtype_name(one.dtype), one.bytes,
          one.time_ps);
    });
    put("]");
  }

  void write_redistributions() {
    put("\"redistributions\": [\n");
    put_list(plan_.redistributions, ",\n", [&](const partition::Redistribution& redistribution) {
      put("{{");
      put_value(redistribution.value);
      put(", \"phase\": \"{}\", \"from\": ", name_of(redistribution.phase, kPhases));
      put_placements(redistribution.from);
      put(", \"to\": ");
      put_placements(redistribution.to);
      put(", \"dtype\": \"{}\", \"steps\": [", costs::dtype_name(graph_.meta(redistribution.value).dtype));
      put_list(redistribution.steps, ", ",
               [&](const costs::RedistributeStep& step) { put_step(step, redistribution.flight.exists()); });
      put("], {}", redistribution.is_saved ? "\"is_saved\": true, " : "");
      put_flight(redistribution.flight);
      if (redistribution.pipelined_ps > 0) put("\"pipelined_ps\": {}, ", redistribution.pipelined_ps);
      put("\"uses\": [");
      put_list(redistribution.uses, ", ", [&](const partition::Redistribution::Use& use) { put_use(use); });
      put("]}}");
    });
    put("\n],\n");
  }

  void put_flight(const partition::Flight& flight) {
    if (!flight.exists()) return;
    const auto key = [&](std::int32_t node) {
      return node < 0 ? "null" : quoted(graph_.nodes[static_cast<std::size_t>(node)].key);
    };
    put("\"start\": {}, \"finish\": {}, ", key(flight.start), key(flight.finish));
  }

  void put_step(const costs::RedistributeStep& step, bool has_flight) {
    put("{{\"step\": \"{}\", \"mesh_dims\": ", costs::step_name(step.kind));
    put_strings(mesh_dim_names(step.mesh_dims, plan_.mesh));
    put(", \"to\": ");
    put_placements(step.to);
    put(", \"bytes\": {}, \"time_ps\": {}", step.bytes, step.time_ps);
    if (has_flight && costs::collective_of(step.kind)) put(", \"startup_ps\": {}", step.startup_ps);
    put("}}");
  }

  void put_use(const partition::Redistribution::Use& use) {
    if (use.input < 0) {
      put("{{\"graph_output\": {}}}", use.node);
    } else {
      put("{{\"node\": {}, \"input\": {}}}", quoted(graph_.nodes[static_cast<std::size_t>(use.node)].key), use.input);
    }
  }

  void write_outputs() {
    put("\"outputs\": [\n");
    std::size_t index = 0;
    put_list(plan_.outputs, ",\n", [&](const Placements& placements) {
      const costs::GraphOutput& output = graph_.outputs[index++];
      put("{{");
      put_value(output.value);
      put(", \"role\": \"{}\", ", name_of(output.role, kOutputRoles));
      if (output.of >= 0) put("\"of\": {}, ", quoted(graph_.nodes[static_cast<std::size_t>(output.of)].key));
      put("\"placements\": ");
      put_placements(placements);
      put("}}");
    });
    put("\n]");
  }

  void write_run(const engine::Stats& stats, const RunInfo& run) {
    put(",\n\"run\": {{\"ranks\": {}, \"threads\": {}, ", run.ranks, run.threads);
    put("\"read_s\": {:.3f}, \"build_s\": {:.3f}, \"solve_s\": {:.3f}, ", run.read_s, run.build_s, run.solve_s);
    put("\"presolve_s\": {:.3f}, \"bound_s\": {:.3f}, \"search_s\": {:.3f}, ", stats.presolve_s, stats.bound_s,
        stats.search_s);
    put("\"variables\": {}, \"variables_after_presolve\": {}, \"values_after_fixing\": {}, \"sweeps\": {}, ",
        stats.variables, stats.variables_after_presolve, stats.values_after_fixing, stats.sweeps);
    put("\"segments\": {}, \"segment_classes\": {}, \"tasks\": {}, \"branch_nodes\": {}", stats.segments,
        stats.segment_classes, stats.tasks, stats.branch_nodes);
    if (!run.progress.empty()) {
      put(", \"progress\": [");
      put_list(run.progress, ", ", [&](const engine::ProgressPoint& point) {
        const std::string cost = point.cost < engine::kForbidden ? fmt::to_string(point.cost) : "null";
        put("[{:.3f}, {}, {}]", point.seconds, cost, point.bound);
      });
      put("]");
    }
    put("}}");
  }

  const partition::Problem& problem_;
  const partition::Plan& plan_;
  const costs::Graph& graph_;
  fmt::memory_buffer buffer_;
};

}  // namespace

std::string_view status_name(engine::Status status) { return kStatusNames[static_cast<std::size_t>(status)]; }

double relative_gap(engine::Cost cost, engine::Cost bound) {
  return cost <= bound ? 0 : static_cast<double>(cost - bound) / static_cast<double>(cost);
}

std::string format_plan(const partition::Problem& problem, const partition::Plan& plan, const PlanResult& result,
                        const PlanSource& source, const std::optional<RunInfo>& run) {
  return PlanWriter(problem, plan).write(result, source, run);
}

}  // namespace autopar::io
