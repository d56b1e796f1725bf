#include "launch/plan/pins.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "costs/placement.h"
#include "engine/index.h"
#include "io/file.h"
#include "io/input_error.h"
#include "io/read_constraints.h"
#include "launch/fold_names.h"
#include "launch/plan/module_facts.h"
#include "launch/plan/targets.h"

namespace autopar::launch {
namespace {

using engine::ix;
using Json = nlohmann::ordered_json;

constexpr const char* kFromCommandLine = "--pin";
constexpr const char* kExample = "expected PATTERN: PLACEMENTS, such as 'layers.*.mlp.w1: {tp: Shard(0)}'";

std::string place(const YAML::Mark& mark) {
  return mark.is_null() ? "" : fmt::format("line {}, column {}", mark.line + 1, mark.column + 1);
}

Json scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // it stands in quotes
  if (text == "true" || text == "false") return text == "true";
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && rest == text.data() + text.size()) return number;
  return text;
}

Json to_json(const YAML::Node& node, const std::string& file) {
  if (node.IsNull()) return nullptr;
  if (node.IsScalar()) return scalar(node);
  Json json = node.IsSequence() ? Json::array() : Json::object();
  for (const auto& item : node) {
    if (node.IsSequence()) {
      json.push_back(to_json(item, file));
      continue;
    }
    const YAML::Node& key = item.first;
    if (!key.IsScalar()) throw io::InputError(file, place(key.Mark()), "expected a name before the colon");
    if (json.contains(key.Scalar())) {
      throw io::InputError(file, place(key.Mark()), fmt::format("\"{}\" is there twice", key.Scalar()));
    }
    json[key.Scalar()] = to_json(item.second, file);
  }
  return json;
}

/// JSON is YAML, so that one reader does for both.
Json parse_yaml(const std::string& text, const std::string& file) {
  try {
    return to_json(YAML::Load(text), file);
  } catch (const YAML::Exception& error) {
    const bool has_star = text.find('*') != std::string::npos;
    throw io::InputError(file, place(error.mark),
                         error.msg + (has_star ? " (a pattern that begins with * has to stand in quotes)" : ""));
  }
}

/// Behind the first colon that a blank follows stand placements; patterns have none.
std::pair<std::string, Json> parse_pin(const std::string& text) {
  const std::size_t colon = text.find(": ");
  if (colon == std::string::npos || colon == 0) {
    throw io::InputError(kFromCommandLine, "", fmt::format("\"{}\": {}", text, kExample));
  }
  return {text.substr(0, colon), parse_yaml(text.substr(colon + 2), fmt::format("{} '{}'", kFromCommandLine, text))};
}

class Writer {
 public:
  explicit Writer(const Task& task, std::string source) : task_(task), source_(std::move(source)) {
    for (const char* section : {"parameters", "inputs", "outputs", "nodes"}) sections_[section] = Json::object();
  }

  void add(const std::string& pattern, const Json& placements) {
    if (!placements.is_object() && !placements.is_array()) {
      throw io::InputError(source_, pattern, fmt::format("{} are no placements; {}", placements.dump(), kExample));
    }
    for (const std::string& name : unfold_name(pattern)) add_one(name, placements);
  }

  /// Of a constraints file, all that it says.
  std::string text(Json others) {
    Json json = {{"format", "autopar-constraints"}, {"version", 1}};
    json.update(others);
    for (const auto& [section, pins] : sections_.items()) {
      if (!pins.empty()) json[section].update(pins);
    }
    return json.dump(1) + "\n";
  }

 private:
  void add_one(const std::string& pattern, const Json& placements) {
    const auto& nodes = task_.problem.graph.nodes;
    const auto any_node = [&](const auto& wanted) { return std::any_of(nodes.begin(), nodes.end(), wanted); };
    if (!parameters_named(pattern, task_).empty()) return put("parameters", pattern, placements);
    if (any_node([&](const costs::Node& node) {
          return (node.role == costs::Role::kInput || node.role == costs::Role::kTarget) &&
                 io::matches_pattern(pattern, node.name);
        })) {
      return put("inputs", pattern, placements);
    }
    if (pattern == "loss" || pattern.starts_with("gradient.") || pattern.starts_with("mutation.") ||
        pattern.starts_with("output.")) {
      return put("outputs", pattern, placements);
    }
    if (any_node([&](const costs::Node& node) { return io::matches_pattern(pattern, node.key); })) {
      return put("nodes", pattern, placements);
    }
    add_module(pattern, placements);
  }

  void add_module(const std::string& pattern, const Json& placements) {
    std::set<std::string> suffixes;
    bool is_module = false;
    for (const costs::Node& node : task_.problem.graph.nodes) {
      if (node.role == costs::Role::kNone && io::matches_pattern(pattern, node.module)) is_module = true;
      if (node.role != costs::Role::kParameter) continue;
      const std::string module = module_of_parameter(node.name);
      if (!io::matches_pattern(pattern, module)) continue;
      const std::string suffix = node.name.substr(module.size());
      if (suffixes.insert(suffix).second) {
        if (const auto fitting = that_fit(placements, *node.outputs[0])) {
          put("parameters", pattern + suffix, *fitting);
        }
      }
    }
    if (!suffixes.empty()) return;
    throw io::InputError(
        source_, pattern,
        is_module ? "the modules of this name have no parameters of their own; pin a parameter or a "
                    "node, by a name that `autopar-plan explain` takes"
                  : fmt::format("the model has no parameter, input, output, node or module of this name; the nearest "
                                "are {}. `autopar-plan show` lists modules",
                                near_names(pattern, task_)));
  }

  /// Of placements for a module's weight, those that another parameter of it (a bias, of fewer dims) can have.
  static std::optional<Json> that_fit(const Json& placements, const costs::TensorMeta& tensor) {
    if (tensor.rank() > 1) return placements;
    Json fitting = placements;
    for (auto& placement : fitting) {
      const auto parsed = placement.is_string() ? costs::parse_placement(placement.get<std::string>()) : std::nullopt;
      if (parsed && parsed->is_shard() && parsed->dim() >= tensor.rank()) placement = nullptr;
    }
    const bool says_something =
        std::any_of(fitting.begin(), fitting.end(), [](const Json& placement) { return !placement.is_null(); });
    return says_something ? std::optional(fitting) : std::nullopt;
  }

  /// Two pins of one pattern are one pin of both, where they do not speak of the same mesh dim.
  void put(const char* section, const std::string& pattern, const Json& placements) {
    Json& pin = sections_[section][pattern];
    const auto fail = [&](const Json& is, const Json& wanted) {
      throw io::InputError(source_, pattern, fmt::format("is pinned to {} and to {}", is.dump(), wanted.dump()));
    };
    if (!pin.is_object() || !placements.is_object()) {
      if (!pin.is_null() && pin != placements) fail(pin, placements);
      pin = placements;
      return;
    }
    for (const auto& [mesh_dim, placement] : placements.items()) {
      if (pin.contains(mesh_dim) && pin[mesh_dim] != placement) fail(pin, placements);
      pin[mesh_dim] = placement;
    }
  }

  const Task& task_;
  std::string source_;
  Json sections_;
};

}  // namespace

PinConstraints read_pins(const PinArguments& arguments, const Task& task) {
  std::string source = arguments.file;
  if (!arguments.pins.empty()) source += (source.empty() ? "" : " and ") + std::string(kFromCommandLine);
  Writer writer(task, source);
  Json others = Json::object();
  if (!arguments.file.empty()) {
    Json file = parse_yaml(io::read_file(arguments.file), arguments.file);
    if (!file.is_object()) throw io::InputError(arguments.file, "", fmt::format("expected a map; {}", kExample));
    if (file.contains("format")) {
      others = std::move(file);
    } else {
      for (const auto& [pattern, placements] : file.items()) writer.add(pattern, placements);
    }
  }
  for (const std::string& text : arguments.pins) {
    const auto [pattern, placements] = parse_pin(text);
    writer.add(pattern, placements);
  }
  return {source, writer.text(std::move(others))};
}

}  // namespace autopar::launch
