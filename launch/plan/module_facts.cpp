#include "launch/plan/module_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "engine/index.h"
#include "launch/field_words.h"

namespace autopar::launch {
namespace {

using costs::Placement;
using engine::ix;
using partition::WrittenPlan;
using Kind = costs::RedistributeStep::Kind;

constexpr std::string_view kInputPrefix = "input.";

void add_once(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

class Reader {
 public:
  explicit Reader(const WrittenPlan& plan) : plan_(plan) {
    for (std::size_t i = 0; i < plan.nodes.size(); ++i) index_of_.emplace(plan.nodes[i].key, i);
    find_weights();
    find_moves();
  }

  std::vector<ModuleFacts> read() {
    place_modules();
    for (int dim = 0; dim < plan_.mesh.rank(); ++dim) read_mesh_dim(dim);
    return std::move(modules_);
  }

 private:
  using Moves = std::set<std::tuple<std::int32_t, costs::Phase, Kind>>;  // parameter, when and how it is moved

  void find_weights() {
    weight_of_.assign(plan_.nodes.size(), -1);
    for (const auto& [name, placements] : plan_.parameters) {
      const auto found = index_of_.find(name);
      if (found != index_of_.end()) weight_of_[found->second] = static_cast<std::int32_t>(found->second);
    }
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      const WrittenPlan::Node& node = plan_.nodes[i];
      if (!node.reads.empty() && passes_weight(node.op)) weight_of_[i] = weight_of_[ix(node.reads[0].node)];
    }
  }

  bool is_parameter(std::size_t node) const { return weight_of_[node] == static_cast<std::int32_t>(node); }

  void find_moves() {
    moves_.resize(plan_.mesh.shape.size());
    for (const WrittenPlan::Redistribution& entry : plan_.redistributions) {
      const std::int32_t weight = weight_of_[ix(entry.value.node)];
      if (weight < 0) continue;
      for (const WrittenPlan::Step& step : entry.steps) {
        for (std::size_t dim = 0; dim < moves_.size(); ++dim) {
          if ((step.mesh_dims >> dim & 1U) == 0) continue;
          moves_[dim].emplace(weight, entry.phase, step.kind);
          if (entry.is_saved && step.kind == Kind::kAllGather) kept_.emplace(weight, dim);
        }
      }
    }
  }

  ModuleFacts& module_at(const std::string& path) {
    const auto [found, is_new] = module_of_.emplace(path, modules_.size());
    if (is_new) {
      modules_.push_back({path, {}, std::vector<std::string>(plan_.mesh.shape.size()), 0});
      nodes_of_.emplace_back();
    }
    return modules_[found->second];
  }

  /// Modules in the order in which their nodes first run; those with parameters alone behind them.
  void place_modules() {
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      if (!plan_.nodes[i].phase) continue;
      const std::string path = module_of_node(plan_.nodes[i].key);
      module_at(path);
      nodes_of_[module_of_.at(path)].push_back(i);
    }
    for (const std::string& key : plan_.recomputed) ++module_at(module_of_node(key)).num_again;
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      if (!is_parameter(i)) continue;
      const std::string& name = plan_.nodes[i].key;
      const std::string path = module_of_parameter(name);
      module_at(path).parameters.push_back(fmt::format("{} {}", name.substr(path.empty() ? 0 : path.size() + 1),
                                                       short_tensor(plan_.nodes[i].tensors[0].value_or(""))));
      parameters_of_[module_of_.at(path)].push_back(i);
    }
  }

  void read_mesh_dim(int dim) {
    dim_ = dim;
    by_rows_ = find_by_rows();
    for (std::size_t module = 0; module < modules_.size(); ++module) {
      std::string& words = modules_[module].words[ix(dim)];
      words = plan_.mesh.shape[ix(dim)] == 1 ? "one device" : module_words(module);
    }
  }

  std::string_view find_by_rows() const {
    bool batch = false;
    bool sequence = false;
    for (const WrittenPlan::Node& node : plan_.nodes) {
      if (node.phase || !node.key.starts_with(kInputPrefix)) continue;
      const Placement placement = (*node.outputs[0])[dim_];
      batch = batch || (placement.is_shard() && placement.dim() == 0);
      sequence = sequence || (placement.is_shard() && placement.dim() == 1);
    }
    return rows_word(batch, sequence);
  }

  std::string module_words(std::size_t module) const {
    std::vector<std::string> runs = op_words(module);
    std::vector<std::string> words = parameter_words(module, runs);
    words.insert(words.end(), runs.begin(), runs.end());
    if (runs.empty()) words.push_back(output_word(module));
    return fmt::format("{}", fmt::join(words, "; "));
  }

  /// How the module's matmuls with weights, attention and norms run in the forward.
  std::vector<std::string> op_words(std::size_t module) const {
    std::vector<std::string> words;
    for (const std::size_t i : nodes_of_[module]) {
      const WrittenPlan::Node& node = plan_.nodes[i];
      if (node.phase != costs::Phase::kForward) continue;
      if (const std::string_view kind = weight_matmul_kind(node); !kind.empty()) {
        add_once(words, kind == "replicated" ? "matmul replicated" : std::string(kind));
      }
      if (node.outputs.empty() || !node.outputs[0]) continue;
      const Placement placement = (*node.outputs[0])[dim_];
      if (is_attention(node.op)) add_once(words, "attention " + placed_word(placement, kAttentionDims));
      if (is_norm(node.op)) add_once(words, "norm " + placed_word(placement, {}));
    }
    return words;
  }

  std::string_view weight_matmul_kind(const WrittenPlan::Node& node) const {
    const std::optional<Factors> pair = factors(node.op, node.reads.size());
    if (!pair) return {};
    const bool weight_first = weight_of_[ix(node.reads[pair->first].node)] >= 0;
    const std::size_t weight = weight_first ? pair->first : pair->second;
    if (weight_of_[ix(node.reads[weight].node)] < 0) return {};
    const std::size_t other = weight_first ? pair->second : pair->first;
    return matmul_kind(node.inputs[other][dim_], node.inputs[weight][dim_], (*node.outputs[0])[dim_], by_rows_);
  }

  /// How the module's own parameters are kept and what is done to them before use. One that is cut as its matmul wants
  /// it needs no word: the matmul's says it.
  std::vector<std::string> parameter_words(std::size_t module, const std::vector<std::string>& runs) const {
    const auto own = parameters_of_.find(module);
    if (own == parameters_of_.end()) return {};
    std::vector<std::pair<std::string, std::string>> said;  // name, words
    for (const std::size_t i : own->second) {
      const std::string& key = plan_.nodes[i].key;
      said.emplace_back(key.substr(key.rfind('.') + 1), rest_words(static_cast<std::int32_t>(i)));
    }
    const bool is_cut_for_use = runs.size() == 1 && (runs[0] == "column-parallel" || runs[0] == "row-parallel");
    std::vector<std::string> words;
    if (std::all_of(said.begin(), said.end(), [&](const auto& one) { return one.second == said[0].second; })) {
      if (!(is_cut_for_use && is_untouched(static_cast<std::int32_t>(own->second[0])))) words.push_back(said[0].second);
    } else {
      for (const auto& [name, how] : said) words.push_back(fmt::format("{} {}", name, how));
    }
    return words;
  }

  /// Cut at rest, and used as it is.
  bool is_untouched(std::int32_t parameter) const {
    const auto& moves = moves_[ix(dim_)];
    return at_rest(parameter).is_shard() &&
           std::none_of(moves.begin(), moves.end(), [&](const auto& move) { return std::get<0>(move) == parameter; });
  }

  Placement at_rest(std::int32_t parameter) const { return (*plan_.nodes[ix(parameter)].outputs[0])[dim_]; }

  std::string rest_words(std::int32_t parameter) const {
    const Placement placement = at_rest(parameter);
    const auto moves = [&](costs::Phase phase, Kind kind) {
      return moves_[ix(dim_)].count({parameter, phase, kind}) != 0;
    };
    std::string words =
        (placement.is_replicate() ? std::string("replicated") : costs::to_string(placement)) + " at rest";
    if (moves(costs::Phase::kForward, Kind::kAllGather)) {
      words += kept_.count({parameter, ix(dim_)}) != 0 ? ", gathered once and kept" : ", gathered";
    } else if (moves(costs::Phase::kBackward, Kind::kAllGather)) {
      words += ", gathered in the backward";
    }
    if (moves(costs::Phase::kForward, Kind::kAllToAll)) words += ", cut otherwise before use";
    if (moves(costs::Phase::kForward, Kind::kSlice)) words += ", cut before use";
    return words;
  }

  /// What the module hands on, where nothing else is to be said.
  std::string output_word(std::size_t module) const {
    for (const costs::Phase phase : {costs::Phase::kForward, costs::Phase::kBackward}) {
      for (auto i = nodes_of_[module].rbegin(); i != nodes_of_[module].rend(); ++i) {
        const WrittenPlan::Node& node = plan_.nodes[*i];
        if (node.phase != phase || node.outputs.empty() || !node.outputs[0]) continue;
        return "result " + placed_word((*node.outputs[0])[dim_], {});
      }
    }
    return "no result";
  }

  const WrittenPlan& plan_;
  std::unordered_map<std::string_view, std::size_t> index_of_;  // nodes by key
  std::vector<std::int32_t> weight_of_;                         // per node: the parameter that it hands on, or -1
  std::vector<Moves> moves_;                                    // per mesh dim
  std::set<std::pair<std::int32_t, std::size_t>> kept_;         // parameters gathered along a mesh dim and kept
  std::vector<ModuleFacts> modules_;
  std::vector<std::vector<std::size_t>> nodes_of_;  // per module
  std::map<std::size_t, std::vector<std::size_t>> parameters_of_;
  std::unordered_map<std::string, std::size_t> module_of_;
  int dim_ = 0;
  std::string_view by_rows_;
};

}  // namespace

std::vector<ModuleFacts> module_facts(const WrittenPlan& plan) { return Reader(plan).read(); }

std::string module_name(const std::string& path) { return path.empty() ? "(top)" : path; }

std::string module_of_node(const std::string& key) {
  const std::size_t slash = key.find('/');
  return slash == std::string::npos ? "" : key.substr(0, slash);
}

std::string module_of_parameter(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

std::string short_tensor(const std::string& tensor) {
  const std::size_t bracket = std::min(tensor.find('['), tensor.size());
  return short_dtype(std::string_view(tensor).substr(0, bracket)) + tensor.substr(bracket);
}

}  // namespace autopar::launch
