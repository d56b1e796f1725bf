#include "launch/plan/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "engine/index.h"
#include "io/input_error.h"
#include "io/read_constraints.h"
#include "launch/field_words.h"
#include "launch/fold_names.h"
#include "launch/plan/module_facts.h"

namespace autopar::launch {
namespace {

using costs::Node;
using costs::Role;
using engine::ix;

constexpr std::size_t kMostTargets = 8;
constexpr std::size_t kMostNear = 3;

bool is_input(const Node& node) { return node.role != Role::kNone && node.role != Role::kParameter; }

std::string kind_of(const Node& node) {
  if (node.role == Role::kNone) return "op";
  return node.role == Role::kParameter ? "parameter" : "input";
}

const std::string& name_of(const Node& node) { return node.role == Role::kNone ? node.key : node.name; }

std::string module_of(const Node& node) {
  return node.role == Role::kParameter ? module_of_parameter(node.name) : node.module;
}

/// How many letters have to change to make one of the other.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

class Finder {
 public:
  explicit Finder(const Task& task) : task_(task), graph_(task.problem.graph) {}

  std::vector<Target> find(const std::string& name) const {
    std::vector<std::int32_t> found = of_names(name);
    if (found.empty()) found = of_modules(name);
    if (found.empty()) {
      throw io::InputError(
          name, "",
          fmt::format("the model has no parameter, input, node or module of this name; the nearest are {}. "
                      "`autopar-plan show` lists modules",
                      near_names(name, task_)));
    }
    return grouped(name, found);
  }

 private:
  /// Of parameters, inputs or ops, the first kind of which any is named so.
  std::vector<std::int32_t> of_names(const std::string& name) const {
    std::vector<std::int32_t> found;
    for (const std::string& pattern : unfold_name(name)) {
      const std::vector<std::int32_t> some = parameters_named(pattern, task_);
      found.insert(found.end(), some.begin(), some.end());
    }
    if (!found.empty()) return found;
    for (const bool inputs : {true, false}) {
      for (const std::string& pattern : unfold_name(name)) {
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
          const Node& node = graph_.nodes[i];
          if (node.role == Role::kParameter || is_input(node) != inputs) continue;
          if (io::matches_pattern(pattern, name_of(node)) || io::matches_pattern(pattern, node.key)) {
            found.push_back(static_cast<std::int32_t>(i));
          }
        }
      }
      if (!found.empty()) return found;
    }
    return found;
  }

  /// Of modules that are named so: parameters and what is computed with them.
  std::vector<std::int32_t> of_modules(const std::string& name) const {
    std::set<std::string> modules;
    std::set<std::string> known;
    for (const Node& node : graph_.nodes) {
      if (!is_input(node)) known.insert(module_of(node));
    }
    for (const std::string& pattern : unfold_name(name)) {
      for (const std::string& module : known) {
        if (io::matches_pattern(pattern, module)) modules.insert(module);
      }
    }
    std::vector<std::int32_t> found;
    std::map<std::string, std::int32_t> last;  // by module, the last forward op
    std::set<std::string> has_matmul;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const std::string module = module_of(node);
      if (is_input(node) || modules.count(module) == 0) continue;
      const auto index = static_cast<std::int32_t>(i);
      const bool is_main = node.role == Role::kNone && node.phase == costs::Phase::kForward &&
                           (is_matmul(node.op) || is_attention(node.op));
      if (node.role == Role::kParameter || is_main) found.push_back(index);
      if (is_main) has_matmul.insert(module);
      if (node.role == Role::kNone && node.phase == costs::Phase::kForward && node.outputs[0]) last[module] = index;
    }
    for (const auto& [module, index] : last) {
      if (has_matmul.count(module) == 0) found.push_back(index);
    }
    return found;
  }

  std::vector<Target> grouped(const std::string& name, std::vector<std::int32_t> nodes) const {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    std::vector<NamedFacts> items;
    for (const std::int32_t index : nodes) {
      const Node& node = graph_.nodes[ix(index)];
      if (node.outputs.empty() || !node.outputs[0]) {
        throw io::InputError(name, "", fmt::format("\"{}\" has no first output to place", node.key));
      }
      items.push_back({name_of(node), fmt::format("{} {}", node.op, fmt::join(node.outputs[0]->shape, ","))});
    }
    std::vector<Target> targets;
    for (const FoldedName& folded : fold_names(items)) {
      Target& target =
          targets.emplace_back(Target{folded.name, kind_of(graph_.nodes[ix(nodes[folded.members[0]])]), {}});
      for (const std::size_t member : folded.members) target.nodes.push_back(nodes[member]);
    }
    if (targets.size() > kMostTargets) {
      std::vector<std::string> names;
      for (std::size_t i = 0; i < kMostTargets; ++i) names.push_back(targets[i].name);
      throw io::InputError(
          name, "",
          fmt::format("means {} different tensors, and up to {} can be asked for at once; ask for some "
                      "of them, such as {}",
                      targets.size(), kMostTargets, fmt::join(names, ", ")));
    }
    return targets;
  }

  const Task& task_;
  const costs::Graph& graph_;
};

}  // namespace

std::vector<Target> find_targets(const std::string& name, const Task& task) { return Finder(task).find(name); }

std::string near_names(const std::string& name, const Task& task) {
  std::set<std::string> names;
  for (const Node& node : task.problem.graph.nodes) {
    names.insert(name_of(node));
    if (!is_input(node)) names.insert(module_of(node));
  }
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& known : names) {
    // Most often what is missing is the path before it.
    const bool is_part = known.find(name) != std::string::npos;
    if (!known.empty()) near.emplace_back(is_part ? 0 : distance(name, known), known);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> nearest;
  std::set<std::string> told;
  for (const auto& [how_far, known] : near) {
    std::string without_numbers = known;
    std::erase_if(without_numbers, [](char c) { return c >= '0' && c <= '9'; });
    if (nearest.size() < kMostNear && told.insert(without_numbers).second) nearest.push_back(known);
  }
  return fmt::format("{}", fmt::join(nearest, ", "));
}

std::vector<std::int32_t> parameters_named(const std::string& pattern, const Task& task) {
  std::vector<std::int32_t> found;
  const auto& nodes = task.problem.graph.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].role != Role::kParameter) continue;
    const std::vector<std::string>& aliases = task.source.aliases[i];
    const auto is_named = [&](const std::string& name) { return io::matches_pattern(pattern, name); };
    if (is_named(nodes[i].name) || std::any_of(aliases.begin(), aliases.end(), is_named)) {
      found.push_back(static_cast<std::int32_t>(i));
    }
  }
  return found;
}

}  // namespace autopar::launch
