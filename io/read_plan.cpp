#include "io/read_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/index.h"
#include "io/choices.h"
#include "io/file.h"
#include "io/json.h"
#include "io/read_mesh.h"

namespace autopar::io {
namespace {

using costs::Phase;
using costs::Placements;
using costs::RedistributeStep;
using partition::WrittenPlan;

constexpr std::string_view kFormat = "autopar-plan";
constexpr std::int64_t kVersion = 1;
constexpr Choices<bool, 2> kOverlaps = {{{"model", true}, {"none", false}}};
/// Of all times in a file together, so that sums of them stay within 64 bits.
constexpr std::int64_t kMostPs = std::numeric_limits<std::int64_t>::max() / 4;

using engine::ix;

const Choices<RedistributeStep::Kind, 6>& step_kinds() {
  static const auto kinds = [] {
    Choices<RedistributeStep::Kind, 6> named;
    for (std::size_t i = 0; i < named.size(); ++i) {
      const auto kind = static_cast<RedistributeStep::Kind>(i);
      named[i] = {costs::step_name(kind), kind};
    }
    return named;
  }();
  return kinds;
}

/// Reads one plan; holds what all its parts need.
class PlanReader {
 public:
  explicit PlanReader(const JsonValue& root) : root_(root) {}

  WrittenPlan read() {
    root_.expect_keys({"format", "version", "producer", "model", "mesh", "cluster", "constraints_hash", "overlap",
                       "result", "meshes", "totals", "parameters", "recompute", "nodes", "redistributions", "outputs",
                       "run"});
    read_head();
    for (const auto& [name, placements] : root_.at("parameters").fields()) {
      plan_.parameters.emplace_back(name, read_placements(placements));
    }
    read_nodes();
    for (const JsonValue& key : root_.at("recompute").items()) {
      plan_.recomputed.push_back(plan_.nodes[ix(read_node_key(key))].key);
    }
    for (const JsonValue& output : root_.at("outputs").items()) read_output(output);
    for (const JsonValue& entry : root_.at("redistributions").items()) read_redistribution(entry);
    read_totals();
    return std::move(plan_);
  }

 private:
  void read_head() {
    const JsonValue model = root_.at("model");
    model.expect_keys({"name", "graph_hash", "hash"});
    plan_.model_name = model.at("name").string();
    plan_.graph_hash = model.at("graph_hash").string();
    plan_.mesh = read_mesh(root_.at("mesh"));
    for (int dim = 0; dim < plan_.mesh.rank(); ++dim) {
      if (plan_.mesh.shape[ix(dim)] == 1) lone_dims_ |= 1U << dim;
    }
    plan_.model_hash = model.at("hash").string();
    plan_.cluster_name = root_.at("cluster").at("name").string();
    plan_.cluster_hash = root_.at("cluster").at("hash").string();
    if (const JsonValue hash = root_.at("constraints_hash"); !hash.is_null()) plan_.constraints_hash = hash.string();
    if (const auto overlap = root_.find("overlap")) plan_.has_overlap = choose(*overlap, kOverlaps);
    const JsonValue result = root_.at("result");
    result.expect_keys({"status", "cost_ps", "bound_ps", "gap"});
    plan_.status = result.at("status").string();
    plan_.cost_ps = read_amount(result, "cost_ps");
    plan_.bound_ps = read_amount(result, "bound_ps");
  }

  void read_totals() {
    const JsonValue totals = root_.at("totals");
    plan_.compute_ps = read_amount(totals, "compute_ps");
    plan_.communication_ps = read_amount(totals, "communication_ps");
    plan_.parameter_bytes = read_amount(totals, "parameter_bytes");
    plan_.memory_limit_bytes = read_amount(totals, "memory_limit_bytes");
    const JsonValue peak = totals.at("peak");
    plan_.memory.peak_bytes = read_amount(peak, "bytes");
    if (const JsonValue node = peak.at("node"); !node.is_null()) plan_.memory.peak_node = read_op_key(node);
    for (std::size_t kind = 0; kind < partition::kNumMemoryKinds; ++kind) {
      const auto name = partition::memory_kind_name(static_cast<partition::MemoryKind>(kind));
      plan_.memory.peak_parts[kind] = read_amount(peak, fmt::format("{}_bytes", name));
    }
  }

  // ---- small parts ----

  static std::int64_t read_amount(const JsonValue& owner, std::string_view key) {
    const JsonValue value = owner.at(key);
    if (value.int64() < 0) value.fail(fmt::format("{} is negative", value.int64()));
    return value.int64();
  }

  /// A time that is part of the step.
  std::int64_t read_time(const JsonValue& owner, std::string_view key) {
    const std::int64_t time_ps = read_amount(owner, key);
    if (time_ps > kMostPs - sum_ps_) owner.at(key).fail("the times up to here sum to more than this program can hold");
    sum_ps_ += time_ps;
    return time_ps;
  }

  Placements read_placements(const JsonValue& value) const {
    const std::vector<JsonValue> items = value.items();
    if (static_cast<int>(items.size()) != plan_.mesh.rank()) {
      value.fail(fmt::format("expected {} placements, one per mesh dim; found {}", plan_.mesh.rank(), items.size()));
    }
    Placements placements;
    for (int dim = 0; dim < plan_.mesh.rank(); ++dim) {
      const JsonValue& item = items[ix(dim)];
      const auto placement = costs::parse_placement(item.string());
      if (!placement) item.fail(fmt::format("expected R, S(0), P(sum) or the like; found \"{}\"", item.string()));
      placements[dim] = *placement;
    }
    return placements;
  }

  /// On a mesh dim of one device all placements are the same.
  Placements canonical(Placements placements) const {
    for (int dim = 0; dim < costs::kMaxMeshDims; ++dim) {
      if ((lone_dims_ >> dim & 1U) != 0) placements[dim] = costs::Placement::replicate();
    }
    return placements;
  }

  std::uint32_t read_mesh_dims(const JsonValue& value) const {
    const std::vector<std::string>& names = plan_.mesh.dim_names;
    std::uint32_t mesh_dims = 0;
    for (const JsonValue& item : value.items()) {
      const auto found = std::find(names.begin(), names.end(), item.string());
      if (found == names.end()) {
        item.fail(fmt::format("expected a mesh dim ({}); found \"{}\"", fmt::join(names, ", "), item.string()));
      }
      mesh_dims |= 1U << (found - names.begin());
    }
    if (mesh_dims == 0) value.fail("is empty; expected the names of mesh dims");
    return mesh_dims;
  }

  std::int32_t read_node_key(const JsonValue& value) const {
    const auto found = index_of_.find(value.string());
    if (found == index_of_.end()) {
      value.fail(fmt::format("unknown node \"{}\"; expected a key of \"nodes\"", value.string()));
    }
    return found->second;
  }

  /// The key of a node that is no graph input.
  std::int32_t read_op_key(const JsonValue& value) const {
    const std::int32_t node = read_node_key(value);
    if (!plan_.nodes[ix(node)].phase) {
      value.fail(fmt::format("\"{}\" is a graph input; expected a node that runs", value.string()));
    }
    return node;
  }

  costs::ValueRef read_value(const JsonValue& owner) const {
    costs::ValueRef value{read_node_key(owner.at("value")), 0};
    value.output = read_output_index(owner.at("output"), value.node);
    return value;
  }

  /// Of an output of `node` that is not None.
  std::int32_t read_output_index(const JsonValue& output, std::int32_t node) const {
    const auto& outputs = plan_.nodes[ix(node)].outputs;
    const std::int64_t index = output.int64();
    if (index < 0 || index >= static_cast<std::int64_t>(outputs.size())) {
      output.fail(fmt::format("output {} of a node with {}", index, outputs.size()));
    }
    if (!outputs[ix(static_cast<std::int32_t>(index))]) output.fail(fmt::format("output {} is None", index));
    return static_cast<std::int32_t>(index);
  }

  // ---- nodes and outputs ----

  void read_nodes() {
    for (const auto& [key, value] : root_.at("nodes").fields()) {
      if (plan_.nodes.size() >= std::numeric_limits<std::int32_t>::max()) value.fail("too many nodes");
      read_node(std::string(key), value);
      // Behind it, so that a node reads only what stands before it.
      index_of_.emplace(key, static_cast<std::int32_t>(plan_.nodes.size() - 1));
    }
  }

  void read_node(std::string key, const JsonValue& value) {
    value.expect_keys({"op", "phase", "reads", "inputs", "outputs", "tensors", "compute_ps", "memory_bytes", "programs",
                       "collectives"});
    WrittenPlan::Node node;
    node.key = std::move(key);
    node.op = value.at("op").string();
    const bool is_input = node.op == "placeholder";
    if (!is_input) node.phase = read_phase(value);
    for (const JsonValue& input : value.at("inputs").items()) node.inputs.push_back(read_placements(input));
    if (const auto reads = value.find("reads")) read_reads(*reads, node);
    for (const JsonValue& output : value.at("outputs").items()) {
      node.outputs.push_back(output.is_null() ? std::nullopt : std::optional(read_placements(output)));
    }
    const JsonValue tensors = value.at("tensors");
    for (const JsonValue& tensor : tensors.items()) {
      node.tensors.push_back(tensor.is_null() ? std::nullopt : std::optional(std::string(tensor.string())));
    }
    if (node.tensors.size() != node.outputs.size()) {
      tensors.fail(fmt::format("{} tensors for {} outputs", node.tensors.size(), node.outputs.size()));
    }
    node.compute_ps = read_time(value, "compute_ps");
    plan_.memory.node_bytes.push_back(is_input ? 0 : read_amount(value, "memory_bytes"));
    read_programs(value, node);
    plan_.nodes.push_back(std::move(node));
  }

  void read_reads(const JsonValue& value, WrittenPlan::Node& node) const {
    for (const JsonValue& item : value.items()) {
      if (item.is_array()) {
        const std::vector<JsonValue> parts = item.items();
        if (parts.size() != 2) item.fail("expected a node's key, or a list of a key and an output");
        const std::int32_t made_by = read_node_key(parts[0]);
        node.reads.push_back({made_by, read_output_index(parts[1], made_by)});
      } else {
        node.reads.push_back({read_node_key(item), 0});
      }
    }
    if (node.reads.size() != node.inputs.size()) {
      value.fail(fmt::format("{} values for {} inputs", node.reads.size(), node.inputs.size()));
    }
  }

  static Phase read_phase(const JsonValue& node) {
    const auto phase = node.find("phase");
    if (!phase) node.fail("key \"phase\" is missing: an older autopar-search wrote this plan; search it again");
    return choose(*phase, kPhases);
  }

  void read_programs(const JsonValue& value, WrittenPlan::Node& node) {
    if (const auto programs = value.find("programs")) {
      for (const JsonValue& name : programs->items()) node.programs.emplace_back(name.string());
      if (static_cast<int>(node.programs.size()) != plan_.mesh.rank()) {
        programs->fail(fmt::format("{} programs for {} mesh dims", node.programs.size(), plan_.mesh.rank()));
      }
    }
    const auto collectives = value.find("collectives");
    if (!collectives) return;
    for (const JsonValue& one : collectives->items()) {
      one.expect_keys({"step", "mesh_dims", "dtype", "bytes", "time_ps"});
      const JsonValue step = one.at("step");
      if (step.string() != "all_reduce") step.fail(fmt::format("expected \"all_reduce\"; found \"{}\"", step.string()));
      const JsonValue dims = one.at("mesh_dims");
      const std::uint32_t mesh_dims = read_mesh_dims(dims);
      if (!std::has_single_bit(mesh_dims)) dims.fail("expected one mesh dim");
      node.all_reduces.push_back({std::countr_zero(mesh_dims), read_dtype(one.at("dtype")), read_amount(one, "bytes"),
                                  read_time(one, "time_ps")});
    }
  }

  void read_output(const JsonValue& value) {
    value.expect_keys({"value", "output", "role", "of", "placements"});
    WrittenPlan::Output output;
    output.value = read_value(value);
    output.role = choose(value.at("role"), kOutputRoles);
    if (const auto of = value.find("of")) output.of = read_node_key(*of);
    output.placements = read_placements(value.at("placements"));
    plan_.outputs.push_back(output);
  }

  // ---- redistributions ----

  void read_redistribution(const JsonValue& value) {
    value.expect_keys({"value", "output", "phase", "from", "to", "dtype", "steps", "is_saved", "uses", "start",
                       "finish", "pipelined_ps"});
    WrittenPlan::Redistribution entry;
    entry.value = read_value(value);
    entry.phase = choose(value.at("phase"), kPhases);
    if (is_behind(plan_.nodes[ix(entry.value.node)].phase, entry.phase)) {
      value.at("phase").fail("the value is made in the backward, behind this phase");
    }
    entry.from = read_placements(value.at("from"));
    entry.to = read_placements(value.at("to"));
    entry.dtype = read_dtype(value.at("dtype"));
    if (const auto saved = value.find("is_saved")) entry.is_saved = saved->boolean();
    read_overlap(value, entry);
    for (const JsonValue& step : value.at("steps").items()) entry.steps.push_back(read_step(step, entry.start >= 0));
    for (const JsonValue& use : value.at("uses").items()) entry.uses.push_back(read_use(use, entry));
    read_pipelined(value, entry);
    entry.source = find_source(value.at("from"), entry);
    if (entry.is_saved) saved_as_[entry.value] = canonical(entry.to);
    made_by_.emplace(std::tuple(entry.value, entry.phase, canonical(entry.to)),
                     static_cast<std::int32_t>(plan_.redistributions.size()));
    plan_.redistributions.push_back(std::move(entry));
  }

  static bool is_behind(std::optional<Phase> made, Phase read) {
    return made == Phase::kBackward && read == Phase::kForward;
  }

  void read_overlap(const JsonValue& value, WrittenPlan::Redistribution& entry) const {
    const auto start = value.find("start");
    if (!start) {
      if (const auto finish = value.find("finish")) finish->fail("stands without \"start\"; expected both or none");
      return;
    }
    const auto read_turn = [&](const JsonValue& key) {
      const std::int32_t node = read_op_key(key);
      if (plan_.nodes[ix(node)].phase != entry.phase) key.fail("runs in another phase than this redistribution");
      return node;
    };
    entry.start = read_turn(*start);
    const JsonValue finish = value.at("finish");
    if (finish.is_null()) return;
    entry.finish = read_turn(finish);
    if (entry.finish <= entry.start) finish.fail("expected a node that stands behind that of \"start\"");
  }

  static void read_pipelined(const JsonValue& value, WrittenPlan::Redistribution& entry) {
    const auto pipelined = value.find("pipelined_ps");
    if (!pipelined) return;
    if (entry.start >= 0 || entry.is_saved || entry.steps.size() != 1) {
      pipelined->fail("expected only where one step is waited for and read at once");
    }
    entry.pipelined_ps = read_amount(value, "pipelined_ps");
    if (entry.pipelined_ps > entry.steps[0].time_ps) {
      pipelined->fail(fmt::format("is more than \"time_ps\" of the step, {}", entry.steps[0].time_ps));
    }
  }

  WrittenPlan::Step read_step(const JsonValue& value, bool is_overlapped) {
    value.expect_keys({"step", "mesh_dims", "to", "bytes", "time_ps", "startup_ps"});
    WrittenPlan::Step step;
    step.kind = choose(value.at("step"), step_kinds());
    step.mesh_dims = read_mesh_dims(value.at("mesh_dims"));
    step.to = read_placements(value.at("to"));
    step.bytes = read_amount(value, "bytes");
    step.time_ps = read_time(value, "time_ps");
    if (is_overlapped && costs::collective_of(step.kind)) {
      step.startup_ps = read_amount(value, "startup_ps");
      if (step.startup_ps > step.time_ps) {
        value.at("startup_ps").fail(fmt::format("is more than \"time_ps\", {}", step.time_ps));
      }
    }
    return step;
  }

  partition::Redistribution::Use read_use(const JsonValue& value, const WrittenPlan::Redistribution& entry) {
    partition::Redistribution::Use use;
    if (const auto output = value.find("graph_output")) {
      value.expect_keys({"graph_output"});
      const std::int64_t index = output->int64();
      if (index < 0 || index >= static_cast<std::int64_t>(plan_.outputs.size())) {
        output->fail(fmt::format("{} of {} outputs", index, plan_.outputs.size()));
      }
      use.node = static_cast<std::int32_t>(index);
      if (plan_.outputs[ix(use.node)].value != entry.value) output->fail("this output hands out another value");
    } else {
      value.expect_keys({"node", "input"});
      use = read_reader(value, entry);
    }
    const auto [other, is_new] = read_by_.emplace(std::pair(use.node, use.input), plan_.redistributions.size());
    if (!is_new) value.fail(fmt::format("redistributions[{}] gives this, too", other->second));
    return use;
  }

  partition::Redistribution::Use read_reader(const JsonValue& value, const WrittenPlan::Redistribution& entry) const {
    const JsonValue key = value.at("node");
    const std::int32_t node = read_op_key(key);
    if (node <= entry.value.node) key.fail("stands before the node that makes the value");
    if (plan_.nodes[ix(node)].phase != entry.phase) key.fail("runs in another phase than this redistribution");
    const JsonValue input = value.at("input");
    const std::size_t num_inputs = plan_.nodes[ix(node)].inputs.size();
    if (input.int64() < 0 || input.int64() >= static_cast<std::int64_t>(num_inputs)) {
      input.fail(fmt::format("input {} of a node with {}", input.int64(), num_inputs));
    }
    return {node, static_cast<std::int32_t>(input.int64())};
  }

  /// The earlier entry whose result `entry` starts from; -1: the value as its phase finds it.
  std::int32_t find_source(const JsonValue& from, const WrittenPlan::Redistribution& entry) const {
    const Placements wanted = canonical(entry.from);
    const auto saved = saved_as_.find(entry.value);
    const bool is_given_saved = entry.phase == Phase::kBackward && saved != saved_as_.end();
    const Placements given =
        is_given_saved ? saved->second : canonical(*plan_.nodes[ix(entry.value.node)].outputs[ix(entry.value.output)]);
    if (wanted == given) return -1;
    const auto made = made_by_.find({entry.value, entry.phase, wanted});
    if (made != made_by_.end()) return made->second;
    from.fail(fmt::format("nothing gives the value so: it comes as {}; expected that, or what an earlier entry makes",
                          costs::to_string(given, plan_.mesh.rank())));
  }

  JsonValue root_;
  WrittenPlan plan_;
  std::uint32_t lone_dims_ = 0;  // mesh dims of one device
  std::int64_t sum_ps_ = 0;
  std::unordered_map<std::string_view, std::int32_t> index_of_;  // nodes by key
  std::map<std::tuple<costs::ValueRef, Phase, Placements>, std::int32_t> made_by_;
  std::map<costs::ValueRef, Placements> saved_as_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> read_by_;  // by node and input: the entry that gives it
};

}  // namespace

partition::WrittenPlan read_plan(const std::string& path) { return parse_plan(path, read_file(path)); }

partition::WrittenPlan parse_plan(const std::string& file, const std::string& text) {
  const JsonDocument document(file, text);
  expect_format(document.root(), kFormat, kVersion);
  return PlanReader(document.root()).read();
}

}  // namespace autopar::io
