#include "launch/plan/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/index.h"
#include "io/choices.h"
#include "io/plan_totals.h"
#include "launch/plan/communication.h"
#include "launch/plan/fold_modules.h"
#include "launch/plan/json_parts.h"
#include "launch/plan/module_facts.h"
#include "launch/plan/show.h"
#include "launch/text_table.h"
#include "launch/units.h"

namespace autopar::launch {
namespace {

using engine::ix;
using partition::WrittenPlan;

/// What a module is on a mesh dim, where the plan has none of that name, and where it has no such module.
constexpr const char* kNoMeshDim = "no such mesh dim";
constexpr const char* kNoModule = "no such module";

/// A figure of both plans.
struct Figure {
  std::string name;
  std::int64_t a = 0;
  std::int64_t b = 0;
  bool is_time = true;  ///< else bytes
};

std::string amount(const Figure& figure, std::int64_t value) {
  return figure.is_time ? time_text(value) : bytes_text(value);
}

std::string difference(const Figure& figure) {
  const std::int64_t more = figure.b - figure.a;
  if (more == 0) return "=";
  std::string text = (more > 0 ? "+" : "-") + amount(figure, std::abs(more));
  if (figure.a > 0) text += fmt::format(" ({:+.2f}%)", 100 * static_cast<double>(more) / static_cast<double>(figure.a));
  return text;
}

std::vector<Figure> figures(const WrittenPlan& a, const WrittenPlan& b) {
  std::vector<Figure> list = {
      {"step", a.cost_ps, b.cost_ps},
      {"compute", a.compute_ps, b.compute_ps},
      {"communication, exposed", a.cost_ps - a.compute_ps, b.cost_ps - b.compute_ps},
      {"communication, all", a.communication_ps, b.communication_ps},
      {"memory at the peak", a.memory.peak_bytes, b.memory.peak_bytes, false},
  };
  for (std::size_t kind = 0; kind < partition::kNumMemoryKinds; ++kind) {
    list.push_back({fmt::format("  {}", partition::memory_kind_name(static_cast<partition::MemoryKind>(kind))),
                    a.memory.peak_parts[kind], b.memory.peak_parts[kind], false});
  }
  return list;
}

/// Collectives of one kind, over the mesh dims of one name, in one phase.
struct ComparedRow {
  std::vector<std::string> mesh_dims;
  CommunicationRow a;
  CommunicationRow b;
  bool differs() const {
    return std::tie(a.count, a.bytes, a.time_ps, a.exposed_ps) != std::tie(b.count, b.bytes, b.time_ps, b.exposed_ps);
  }
};

std::vector<ComparedRow> compare_communication(const WrittenPlan& a, const WrittenPlan& b) {
  std::map<std::tuple<std::vector<std::string>, int, costs::Phase>, ComparedRow> rows;
  const auto add = [&](const WrittenPlan& plan, CommunicationRow ComparedRow::*side) {
    for (const CommunicationRow& row : communication_rows(plan, partition::simulate(plan))) {
      const std::vector<std::string> names = io::mesh_dim_names(row.mesh_dims, plan.mesh);
      ComparedRow& both = rows[{names, static_cast<int>(row.kind), row.phase}];
      both.mesh_dims = names;
      both.a.kind = both.b.kind = row.kind;
      both.a.phase = both.b.phase = row.phase;
      both.*side = row;
    }
  };
  add(a, &ComparedRow::a);
  add(b, &ComparedRow::b);
  std::vector<ComparedRow> list;
  for (auto& [key, row] : rows) list.push_back(std::move(row));
  return list;
}

/// What differs in one module.
struct ModuleChange {
  struct Words {
    std::string mesh_dim;
    std::string a;
    std::string b;
    bool operator==(const Words&) const = default;
  };
  std::string path;
  std::vector<Words> words;
  int again_a = 0;  ///< nodes that run again
  int again_b = 0;
  int num_placed_otherwise = 0;  ///< nodes whose inputs or outputs are
};

class Comparer {
 public:
  Comparer(const WrittenPlan& a, const WrittenPlan& b) : a_(a), b_(b) {
    dims_ = a.mesh.dim_names;
    for (const std::string& name : b.mesh.dim_names) {
      if (dim_of(a, name) < 0) dims_.push_back(name);
    }
  }

  std::vector<ModuleChange> changes() {
    const std::vector<ModuleFacts> all_a = module_facts(a_);
    const std::vector<ModuleFacts> all_b = module_facts(b_);
    const std::map<std::string, int> otherwise = placed_otherwise();
    const auto by_path = [](const std::vector<ModuleFacts>& modules) {
      std::unordered_map<std::string_view, const ModuleFacts*> found;
      for (const ModuleFacts& module : modules) found.emplace(module.path, &module);
      return found;
    };
    const auto in_a = by_path(all_a);
    const auto in_b = by_path(all_b);
    std::vector<std::string> paths;
    for (const ModuleFacts& module : all_a) paths.push_back(module.path);
    for (const ModuleFacts& module : all_b) {
      if (in_a.count(module.path) == 0) paths.push_back(module.path);
    }
    num_modules_ = paths.size();
    std::vector<ModuleChange> list;
    for (const std::string& path : paths) {
      const auto a = in_a.find(path);
      const auto b = in_b.find(path);
      ModuleChange change = compare(path, a == in_a.end() ? nullptr : a->second, b == in_b.end() ? nullptr : b->second);
      if (const auto count = otherwise.find(path); count != otherwise.end())
        change.num_placed_otherwise = count->second;
      if (!change.words.empty() || change.again_a != change.again_b || change.num_placed_otherwise > 0) {
        list.push_back(std::move(change));
      }
    }
    return list;
  }

  std::size_t num_modules() const { return num_modules_; }  ///< once changes() has run

 private:
  static int dim_of(const WrittenPlan& plan, const std::string& name) {
    const auto found = std::find(plan.mesh.dim_names.begin(), plan.mesh.dim_names.end(), name);
    return found == plan.mesh.dim_names.end() ? -1 : static_cast<int>(found - plan.mesh.dim_names.begin());
  }

  static std::string words_on(const WrittenPlan& plan, const ModuleFacts* module, const std::string& mesh_dim) {
    const int dim = dim_of(plan, mesh_dim);
    if (dim < 0) return kNoMeshDim;
    return module == nullptr ? kNoModule : module->words[ix(dim)];
  }

  ModuleChange compare(const std::string& path, const ModuleFacts* a, const ModuleFacts* b) const {
    ModuleChange change;
    change.path = path;
    if (a != nullptr) change.again_a = a->num_again;
    if (b != nullptr) change.again_b = b->num_again;
    for (const std::string& name : dims_) {
      std::string from = words_on(a_, a, name);
      std::string to = words_on(b_, b, name);
      if (from != to) change.words.push_back({name, std::move(from), std::move(to)});
    }
    return change;
  }

  /// By module, how many nodes that both plans have are placed otherwise. Of different meshes it is not told.
  std::map<std::string, int> placed_otherwise() const {
    std::map<std::string, int> counts;
    if (a_.mesh.dim_names != b_.mesh.dim_names || a_.mesh.shape != b_.mesh.shape) return counts;
    std::unordered_map<std::string_view, const WrittenPlan::Node*> in_b;
    for (const WrittenPlan::Node& node : b_.nodes) in_b.emplace(node.key, &node);
    for (const WrittenPlan::Node& node : a_.nodes) {
      const auto other = in_b.find(node.key);
      if (!node.phase || other == in_b.end()) continue;
      if (node.inputs != other->second->inputs || node.outputs != other->second->outputs) {
        ++counts[module_of_node(node.key)];
      }
    }
    return counts;
  }

  const WrittenPlan& a_;
  const WrittenPlan& b_;
  std::vector<std::string> dims_;  // of both, each once
  std::size_t num_modules_ = 0;
};

/// Changes that are the same.
using FoldedChanges = FoldedModules<ModuleChange>;

std::vector<FoldedChanges> fold(const std::vector<ModuleChange>& changes) {
  return fold_modules(changes, [](const ModuleChange& change) {
    std::string facts = fmt::format("{} {} {}", change.again_a, change.again_b, change.num_placed_otherwise);
    for (const auto& words : change.words) facts += fmt::format("\n{}\n{}\n{}", words.mesh_dim, words.a, words.b);
    return facts;
  });
}

std::string title(char letter, const NamedPlan& named) {
  return fmt::format("{}  {}: {}\n", letter, named.name, subject_text(named.plan));
}

std::string communication_text(const std::vector<ComparedRow>& compared) {
  std::vector<std::vector<std::string>> rows{
      {"mesh dims", "collective", "phase", "", "count", "bytes", "time", "exposed"}};
  for (const ComparedRow& row : compared) {
    if (!row.differs()) continue;
    const auto add = [&](const char* side, const CommunicationRow& one, bool is_first) {
      std::vector<std::string> cells(3);
      if (is_first) {
        cells = {fmt::format("{}", fmt::join(row.mesh_dims, "+")), std::string(costs::step_name(one.kind)),
                 std::string(io::name_of(one.phase, io::kPhases))};
      }
      cells.insert(cells.end(), {side, std::to_string(one.count), bytes_text(one.bytes), time_text(one.time_ps),
                                 time_text(one.exposed_ps)});
      rows.push_back(std::move(cells));
    };
    add("A", row.a, true);
    add("B", row.b, false);
  }
  if (rows.size() == 1) return "\nCommunication is the same\n";
  return "\nCommunication of one device, where it differs\n" + text_table(rows, 4);
}

std::string modules_text(const std::vector<FoldedChanges>& changes, std::size_t num_modules) {
  if (changes.empty()) return "\nAll modules are treated alike\n";
  std::size_t num_changed = 0;
  std::string text;
  for (const FoldedChanges& folded : changes) {
    num_changed += folded.paths.size();
    text += fmt::format("  {}\n", folded.name);
    for (const auto& words : folded.facts.words) {
      text += fmt::format("    {}: {}  →  {}\n", words.mesh_dim, words.a, words.b);
    }
    const ModuleChange& change = folded.facts;
    if (change.words.empty() && change.num_placed_otherwise > 0) {
      text += fmt::format("    {} op{} placed otherwise\n", change.num_placed_otherwise,
                          change.num_placed_otherwise == 1 ? " is" : "s are");
    }
    if (change.again_a != change.again_b) {
      text += fmt::format("    ops that run again in the backward: {}  →  {}\n", change.again_a, change.again_b);
    }
  }
  return fmt::format("\nModules that differ ({} of {}), A  →  B\n{}", num_changed, num_modules, text);
}

}  // namespace

std::string diff_text(const NamedPlan& a, const NamedPlan& b) {
  std::string text = title('A', a) + title('B', b);
  if (a.plan.graph_hash != b.plan.graph_hash) text += "The plans are of different models.\n";
  std::vector<std::vector<std::string>> rows{{"", "A", "B", "B - A"}};
  for (const Figure& figure : figures(a.plan, b.plan)) {
    if (figure.a == 0 && figure.b == 0) continue;
    rows.push_back({figure.name, amount(figure, figure.a), amount(figure, figure.b), difference(figure)});
  }
  Comparer comparer(a.plan, b.plan);
  const std::vector<FoldedChanges> changes = fold(comparer.changes());
  return text + "\n" + text_table(rows, 1) + communication_text(compare_communication(a.plan, b.plan)) +
         modules_text(changes, comparer.num_modules());
}

Json diff_as_json(const NamedPlan& a, const NamedPlan& b) {
  Json json = {{"a", head_json(a.plan)}, {"b", head_json(b.plan)}};
  json["a"]["name"] = a.name;
  json["b"]["name"] = b.name;
  json["same_model"] = a.plan.graph_hash == b.plan.graph_hash;
  Json communication = Json::array();
  for (const ComparedRow& row : compare_communication(a.plan, b.plan)) {
    const auto side = [](const CommunicationRow& one) {
      return Json{{"count", one.count}, {"bytes", one.bytes}, {"time_ps", one.time_ps}, {"exposed_ps", one.exposed_ps}};
    };
    communication.push_back({{"mesh_dims", row.mesh_dims},
                             {"collective", costs::step_name(row.a.kind)},
                             {"phase", io::name_of(row.a.phase, io::kPhases)},
                             {"a", side(row.a)},
                             {"b", side(row.b)}});
  }
  json["communication"] = communication;
  Json modules = Json::array();
  for (const FoldedChanges& folded : fold(Comparer(a.plan, b.plan).changes())) {
    Json dims = Json::object();
    for (const auto& words : folded.facts.words) dims[words.mesh_dim] = {{"a", words.a}, {"b", words.b}};
    modules.push_back({{"name", folded.name},
                       {"paths", folded.paths},
                       {"mesh_dims", dims},
                       {"recomputed", {{"a", folded.facts.again_a}, {"b", folded.facts.again_b}}},
                       {"placed_otherwise", folded.facts.num_placed_otherwise}});
  }
  json["modules"] = modules;
  return json;
}

}  // namespace autopar::launch
