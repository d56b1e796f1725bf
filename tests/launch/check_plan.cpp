#include "tests/launch/check_plan.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace autopar::testing {
namespace {

using nlohmann::json;

/// Tensor references of `arg`, lists flattened.
void collect(const json& arg, std::vector<json>& refs) {
  if (arg.is_object() && arg.contains("ref")) refs.push_back(arg);
  if (arg.is_array()) {
    for (const json& item : arg) collect(item, refs);
  }
}

/// How many tensors a program all-reduces (docs/local-programs.md); the others none.
const std::map<std::string, std::size_t> kNumReduced = {{"nll_loss_mean", 1},
                                                        {"log_softmax_sharded", 2},
                                                        {"softmax_sharded", 2},
                                                        {"log_softmax_backward_sharded", 1},
                                                        {"softmax_backward_sharded", 1}};

class Checker {
 public:
  Checker(const json& model, const json& plan) : model_(model), plan_(plan) {}

  std::vector<std::string> check() {
    check_nodes();
    check_redistributions();
    check_edges();
    check_outputs();
    check_totals();
    check_memory();
    return faults_;
  }

 private:
  void expect(bool holds, const std::string& fault) {
    if (!holds) faults_.push_back(fault);
  }

  void check_nodes() {
    std::set<std::string> keys;
    for (const char* list : {"inputs", "nodes"}) {
      for (const json& node : model_[list]) keys.insert(node["key"].get<std::string>());
    }
    expect(plan_["nodes"].size() == keys.size(), "the plan has other nodes than the model");
    for (const auto& [key, choice] : plan_["nodes"].items()) {
      expect(keys.count(key) == 1, key + " is not in the model");
      for (const json& output : choice["outputs"]) {
        expect(output.is_null() || output.size() == plan_["mesh"]["shape"].size(), key + " has another mesh");
      }
    }
    for (const json& node : model_["nodes"]) check_tensors(node["key"], node["op"], node["outputs"]);
    for (const json& input : model_["inputs"]) {
      check_tensors(input["key"], "placeholder", json::array({input}));
      if (input["role"] != "parameter") continue;
      const std::string name = input["name"];
      expect(plan_["parameters"][name] == produced(input["key"], 0), name + " is not where its node is");
    }
  }

  /// `outputs`: what the model says of the node's outputs.
  void check_tensors(const std::string& key, const std::string& op, const json& outputs) {
    const json& choice = plan_["nodes"][key];
    expect(choice["op"] == op, key + " is another op");
    json tensors = json::array();
    for (const json& output : outputs) {
      if (output.is_null()) {
        tensors.push_back(nullptr);
        continue;
      }
      const std::string shape = output["shape"].dump();
      tensors.push_back(output["dtype"].get<std::string>() + shape);
    }
    expect(choice["tensors"] == tensors, key + " has other tensors");
    check_programs(key, choice);
  }

  /// Programs all-reduce along their own mesh dims only, one after the other, the same once more for each tensor.
  void check_programs(const std::string& key, const json& choice) {
    if (!choice.contains("programs")) {
      expect(!choice.contains("collectives"), key + " all-reduces without a program");
      return;
    }
    const json& programs = choice["programs"];
    const json& names = plan_["mesh"]["dim_names"];
    std::vector<json> dims;  // of one tensor
    std::size_t tensors = 0;
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const auto found = kNumReduced.find(programs[i].get<std::string>());
      if (found == kNumReduced.end()) continue;
      dims.push_back(json::array({names[i]}));
      tensors = found->second;
    }
    std::vector<json> wanted;
    for (std::size_t t = 0; t < tensors; ++t) wanted.insert(wanted.end(), dims.begin(), dims.end());
    std::vector<json> found;
    for (const json& one : choice.value("collectives", json::array())) found.push_back(one["mesh_dims"]);
    expect(found == wanted, key + " has other all-reduces than its programs");
  }

  const json& produced(const std::string& key, std::size_t output) const {
    return plan_["nodes"][key]["outputs"].at(output);
  }

  /// The placements of a value that readers in `phase` start from: in the backward, of what is saved.
  const json& there(const std::string& value, std::size_t output, const std::string& phase) const {
    const auto saved = saved_.find({value, output});
    return phase == "backward" && saved != saved_.end() ? saved->second : produced(value, output);
  }

  void add_saved(const json& move) {
    const std::string value = move["value"];
    const std::size_t output = move["output"];
    expect(move["is_saved"] == true && move["phase"] == "forward", value + " is not saved in the forward");
    expect(phases_.count(value) == 0 || phases_[value] == "forward", value + " is saved, but made in the backward");
    expect(saved_.emplace(std::pair(value, output), move["to"]).second, value + " is saved twice");
  }

  void check_redistributions() {
    for (const json& node : model_["nodes"]) phases_[node["key"]] = node["phase"];
    for (const json& move : plan_["redistributions"]) {
      const std::string value = move["value"];
      const std::size_t output = move["output"];
      const json made{{"value", value}, {"output", output}, {"phase", move["phase"]}};
      const bool is_copy = made_[made.dump()].count(move["from"].dump()) == 1;
      expect(move["from"] == there(value, output, move["phase"]) || is_copy, value + " is moved from where it is not");
      made_[made.dump()].insert(move["to"].dump());
      if (move.contains("is_saved")) add_saved(move);
      expect(move["from"] != move["to"], value + " is moved to where it is");
      expect(!move["steps"].empty(), value + " is moved without a step");
      json at = move["from"];
      for (const json& step : move["steps"]) {
        check_step(value, at, step);
        at = step["to"];
        communication_ps_ += step["time_ps"].get<std::int64_t>();
      }
      expect(at == move["to"], value + " does not get to where it is wanted");
      for (const json& use : move["uses"]) add_use(use, move);
    }
  }

  /// A step changes the placements on its own mesh dims only, and in the way that its collective can.
  void check_step(const std::string& value, const json& from, const json& step) {
    const auto& names = plan_["mesh"]["dim_names"];
    const std::string kind = step["step"];
    for (std::size_t i = 0; i < names.size(); ++i) {
      const bool on_dim = step["mesh_dims"].dump().find(names[i].dump()) != std::string::npos;
      const std::string a = from[i];
      const std::string b = step["to"][i];
      expect(on_dim || a == b, value + ": " + kind + " changes a mesh dim that it does not run on");
      if (!on_dim) continue;
      const std::string change = {a[0], b[0]};
      const bool fits = (kind == "all_gather" && change == "SR") || (kind == "reduce_scatter" && change == "PS") ||
                        (kind == "all_reduce" && change == "PR") || (kind == "all_to_all" && change == "SS") ||
                        (kind == "slice" && change == "RS") || (kind == "zero" && change == "RP");
      expect(fits, value + ": " + kind + " makes " + b + " of " + a);
    }
  }

  void add_use(const json& use, const json& move) {
    const bool is_new = moves_.emplace(use.dump(), &move).second;
    expect(is_new, use.dump() + " is moved twice");
  }

  /// `use` reads output `output` of `value` in `phase` with placements `wanted`.
  void check_use(const json& use, const std::string& value, std::size_t output, const std::string& phase,
                 const json& wanted) {
    const auto found = moves_.find(use.dump());
    if (phase == "backward") read_later_.insert({value, output});
    if (found == moves_.end()) {
      expect(there(value, output, phase) == wanted, use.dump() + " reads " + value + " where it is not");
      return;
    }
    const json& move = *found->second;
    expect(move["value"] == value && move["output"] == output, use.dump() + " is moved from another value");
    expect(move["to"] == wanted, use.dump() + " is moved to where it is not wanted");
    expect(move["phase"] == phase, use.dump() + " reads what is moved in the other phase");
    ++num_used_;
  }

  void check_edges() {
    for (const json& node : model_["nodes"]) {
      std::vector<json> refs;
      collect(node["args"], refs);
      if (node.contains("kwargs")) {
        for (const auto& [name, arg] : node["kwargs"].items()) collect(arg, refs);
      }
      const std::string key = node["key"];
      const json& inputs = plan_["nodes"][key]["inputs"];
      expect(inputs.size() == refs.size(), key + " has another number of inputs");
      for (std::size_t i = 0; i < std::min(inputs.size(), refs.size()); ++i) {
        check_use({{"node", key}, {"input", i}}, refs[i]["ref"], refs[i].value("output", std::size_t{0}), node["phase"],
                  inputs[i]);
      }
    }
  }

  void check_outputs() {
    expect(plan_["outputs"].size() == model_["outputs"].size(), "the plan has other outputs than the model");
    for (std::size_t i = 0; i < model_["outputs"].size(); ++i) {
      const json& output = model_["outputs"][i];
      const json& placements = plan_["outputs"][i]["placements"];
      const auto producer = phases_.find(output["ref"]);
      const std::string phase = output["role"] == "gradient" ? "backward"
                                : producer == phases_.end()  ? "forward"
                                                             : producer->second;
      check_use({{"graph_output", i}}, output["ref"], output.value("output", std::size_t{0}), phase, placements);
      if (output["role"] != "gradient") continue;
      for (const json& input : model_["inputs"]) {
        if (input["key"] != output["of"] || input["role"] != "parameter") continue;
        expect(placements == produced(input["key"], 0), "the gradient of " + input["key"].dump() + " is elsewhere");
      }
    }
    expect(num_used_ == moves_.size(), "a redistribution has a use that is not in the model");
    for (const auto& [value, placements] : saved_) {
      expect(read_later_.count(value) == 1, value.first + " is saved, but the backward does not read it");
    }
  }

  void check_totals() {
    std::int64_t compute_ps = 0;
    for (const auto& [key, choice] : plan_["nodes"].items()) {
      compute_ps += choice["compute_ps"].get<std::int64_t>();
      if (!choice.contains("collectives")) continue;
      for (const json& one : choice["collectives"]) communication_ps_ += one["time_ps"].get<std::int64_t>();
    }
    std::int64_t collectives_ps = 0;
    for (const json& total : plan_["totals"]["communication"]) collectives_ps += total["time_ps"].get<std::int64_t>();
    expect(plan_["totals"]["compute_ps"] == compute_ps, "compute_ps is not the sum over nodes");
    expect(plan_["totals"]["communication_ps"] == communication_ps_, "communication_ps is not the sum over steps");
    expect(collectives_ps <= communication_ps_, "the collectives' sums exceed all steps");
    const std::int64_t exposed_ps = plan_["totals"]["exposed_ps"];
    expect(plan_["totals"]["cost_ps"] == compute_ps + exposed_ps, "cost_ps is not compute + exposed");
    expect(exposed_ps <= communication_ps_, "more communication is exposed than there is");
    expect(plan_["result"]["cost_ps"] == plan_["totals"]["cost_ps"], "the result has another cost");
    expect(plan_["result"]["bound_ps"] <= plan_["result"]["cost_ps"], "the bound exceeds the cost");
  }

  /// The peak is within the limit, the sum of its parts, and where the nodes say; placeholders do not run.
  void check_memory() {
    const json& peak = plan_["totals"]["peak"];
    expect(peak["bytes"] <= plan_["totals"]["memory_limit_bytes"], "memory exceeds its limit");
    std::int64_t parts = 0;
    for (const auto& [key, part] : peak.items()) {
      if (key.ends_with("_bytes")) parts += part.get<std::int64_t>();
    }
    expect(peak["bytes"] == parts, "the peak is not the sum of its parts");
    std::int64_t most = 0;
    for (const auto& [key, choice] : plan_["nodes"].items()) {
      expect(choice.contains("memory_bytes") == (phases_.count(key) == 1),
             key + " runs without memory, or does not run");
      most = std::max(most, choice.value("memory_bytes", std::int64_t{0}));
    }
    if (peak["node"].is_null()) {
      expect(most < peak["bytes"], "a node needs as much memory as the optimizer's step");
    } else {
      expect(most == peak["bytes"], "the peak is not the most of all nodes");
      expect(plan_["nodes"][peak["node"].get<std::string>()]["memory_bytes"] == most, "the peak is at another node");
    }
  }

  const json& model_;
  const json& plan_;
  std::map<std::string, const json*> moves_;           // by use
  std::map<std::string, std::set<std::string>> made_;  // placements that redistributions made, by value and phase
  std::map<std::string, std::string> phases_;          // of the nodes that run
  std::map<std::pair<std::string, std::size_t>, json> saved_;  // placements of what is saved
  std::set<std::pair<std::string, std::size_t>> read_later_;   // values that the backward reads
  std::size_t num_used_ = 0;
  std::int64_t communication_ps_ = 0;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> check_plan(const json& model, const json& plan) { return Checker(model, plan).check(); }

}  // namespace autopar::testing
