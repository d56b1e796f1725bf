#include "launch/plan/alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/core.h"
#include "engine/dual.h"
#include "engine/index.h"
#include "engine/usage.h"
#include "io/input_error.h"
#include "launch/units.h"
#include "partition/choices.h"
#include "partition/model_network.h"

namespace autopar::launch {
namespace {

using costs::Placement;
using costs::Placements;
using engine::Cost;
using engine::ix;
using partition::Problem;
using partition::WrittenPlan;

/// Rounds of message passing that rank alternatives: near enough to choose which are searched for.
constexpr int kSweeps = 6;

class Asker {
 public:
  Asker(Replanner& replanner, const ExplainArguments& arguments)
      : replanner_(replanner),
        arguments_(arguments),
        problem_(replanner.task().problem),
        plan_(replanner.plan()),
        pins_(partition::effective_pins(problem_)) {
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) node_of_.emplace(plan_.nodes[i].key, i);
    if (!arguments.want.empty()) wanted_ = parse_want(arguments.want, problem_.mesh);
  }

  std::vector<Explained> ask() {
    std::vector<Explained> list;
    for (Target& target : find_targets(arguments_.name, replanner_.task())) {
      Explained one;
      one.target = std::move(target);
      for (const std::int32_t node : one.target.nodes) ++one.chosen[chosen(node)];
      find_alternatives(one);
      find_blocked(one);
      list.push_back(std::move(one));
    }
    rank(list);
    for (Explained& one : list) search(one);
    return list;
  }

 private:
  const costs::Node& node(std::int32_t index) const { return problem_.graph.nodes[ix(index)]; }

  Placements chosen(std::int32_t index) const { return *plan_.nodes[node_of_.at(node(index).key)].outputs[0]; }

  /// What all tensors of a target can be, and are not all.
  void find_alternatives(Explained& one) const {
    partition::PlacementList common;
    for (const std::int32_t index : one.target.nodes) {
      partition::PlacementList own = partition::possible_placements(problem_, index).on_mesh;
      const partition::Pin& pin = pins_[ix(index)];
      std::erase_if(own, [&](const Placements& placements) { return !pin.allows(placements); });
      if (index == one.target.nodes.front()) {
        common = std::move(own);
      } else {
        std::erase_if(common, [&](const Placements& placements) {
          return std::find(own.begin(), own.end(), placements) == own.end();
        });
      }
    }
    for (const Placements& placements : common) {
      const auto is_so = one.chosen.find(placements);
      if (is_so != one.chosen.end() && one.chosen.size() == 1) continue;
      if (wanted_ && !is_wanted(*wanted_, placements)) continue;
      one.alternatives.push_back({placements, engine::kForbidden, {}, 0, ""});
    }
  }

  void find_blocked(Explained& one) const {
    const std::int32_t index = one.target.nodes.front();
    const partition::PossiblePlacements possible = partition::possible_placements(problem_, index);
    std::vector<Placement> all = {Placement::replicate()};
    for (std::int64_t dim = 0; dim < node(index).outputs[0]->rank(); ++dim) all.push_back(Placement::shard(dim));
    all.push_back(Placement::partial());
    for (int dim = 0; dim < problem_.mesh.rank(); ++dim) {
      if (problem_.mesh.shape[ix(dim)] == 1) continue;
      if (const auto asked = wanted_ ? wanted_->at(ix(dim)) : std::nullopt;
          asked && std::find(all.begin(), all.end(), *asked) == all.end()) {
        one.blocked.push_back(
            {dim, *asked, "size", fmt::format("the tensor has {} dims", node(index).outputs[0]->rank())});
      }
      for (const Placement placement : all) {
        if (wanted_ && wanted_->at(ix(dim)) != placement) continue;
        if (auto blocked = why_blocked(index, possible, dim, placement)) one.blocked.push_back(std::move(*blocked));
      }
    }
  }

  /// Nothing if `placement` is possible on mesh dim `dim`.
  std::optional<Blocked> why_blocked(std::int32_t index, const partition::PossiblePlacements& possible, int dim,
                                     Placement placement) const {
    const costs::Node& here = node(index);
    Blocked blocked{dim, placement, "rule", ""};
    if (possible.along_one_dim.count(placement) == 0) {
      if (here.role != costs::Role::kNone) {
        blocked.text = placement.is_partial() ? "what is there before the step cannot be an unfinished sum"
                                              : "a dim of size 1 cannot be cut";
      } else if (possible.has_no_rule) {
        blocked.text = fmt::format("there is no rule for {}, so that it is replicated", here.op);
      } else {
        blocked.text = fmt::format("no way to run {} gives that", here.op);
      }
      return blocked;
    }
    const auto is_so = [&](const Placements& placements) { return placements[dim] == placement; };
    if (std::none_of(possible.on_mesh.begin(), possible.on_mesh.end(), is_so)) {
      blocked.reason = "size";
      blocked.text = size_text(*here.outputs[0], dim, placement);
      return blocked;
    }
    const partition::Pin& pin = pins_[ix(index)];
    if (pin.at[ix(dim)] && *pin.at[ix(dim)] != placement) {
      blocked.reason = "pin";
      blocked.text = fmt::format("{} wants {}", pin.source, costs::to_string(*pin.at[ix(dim)]));
      return blocked;
    }
    return std::nullopt;
  }

  std::string size_text(const costs::TensorMeta& tensor, int dim, Placement placement) const {
    const std::int64_t devices = problem_.mesh.shape[ix(dim)];
    if (!placement.is_shard()) return fmt::format("its inputs cannot be cut evenly into {}", devices);
    const std::int64_t size = tensor.shape[ix(placement.dim())];
    if (size < devices) return fmt::format("dim {} has size {}, less than {} devices", placement.dim(), size, devices);
    return fmt::format("dim {} of size {}, or what it is made of, cannot be cut evenly into {}", placement.dim(), size,
                       devices);
  }

  /// Puts the alternatives first that promise most, by min-marginals of a relaxation in which nothing hides.
  void rank(std::vector<Explained>& list) const {
    const auto needs_rank = [&](const Explained& one) {
      return one.alternatives.size() > static_cast<std::size_t>(arguments_.alternatives);
    };
    if (std::none_of(list.begin(), list.end(), needs_rank)) return;
    const partition::ModelNetwork& model = replanner_.task().model;
    const engine::Core core(model.network, engine::all_values(model.network));
    engine::Dual dual(core);
    for (int i = 0; i < kSweeps; ++i) dual.sweep(engine::Precision::kExact);
    for (Explained& one : list) {
      for (Alternative& alternative : one.alternatives) alternative.estimate = estimate(dual, one.target, alternative);
      std::stable_sort(one.alternatives.begin(), one.alternatives.end(),
                       [](const Alternative& a, const Alternative& b) { return a.estimate < b.estimate; });
    }
  }

  Cost estimate(const engine::Dual& dual, const Target& target, const Alternative& alternative) const {
    const partition::ModelNetwork& model = replanner_.task().model;
    Cost sum = 0;
    for (const std::int32_t index : target.nodes) {
      const std::int32_t variable = model.impl->node_variable[ix(index)];
      const auto& strategies = model.impl->choices[ix(index)]->strategies;
      Cost least = engine::kForbidden;
      for (std::size_t x = 0; x < strategies.size(); ++x) {
        if (strategies[x].outputs[0] != alternative.placements) continue;
        least = std::min(least, dual.marginal(variable, static_cast<std::int32_t>(x)));
      }
      sum = engine::add(sum, least);
    }
    return sum;
  }

  void search(Explained& one) {
    const std::size_t most = static_cast<std::size_t>(arguments_.alternatives);
    for (std::size_t i = 0; i < one.alternatives.size() && i < most; ++i) search(one.target, one.alternatives[i]);
    const auto searched =
        one.alternatives.begin() + static_cast<std::ptrdiff_t>(std::min(most, one.alternatives.size()));
    const auto cost = [](const Alternative& alternative) {
      return alternative.plan ? alternative.plan->cost_ps : engine::kForbidden;
    };
    std::stable_sort(one.alternatives.begin(), searched,
                     [&](const Alternative& a, const Alternative& b) { return cost(a) < cost(b); });
  }

  void search(const Target& target, Alternative& alternative) {
    Problem problem = problem_;
    for (const std::int32_t index : target.nodes) {
      partition::Pin& pin = problem.pins.nodes[ix(index)];
      for (int dim = 0; dim < problem.mesh.rank(); ++dim) pin.at[ix(dim)] = alternative.placements[dim];
      if (pin.source.empty()) pin.source = "explain";
    }
    try {
      const costs::Redistributor& redistributor = *replanner_.task().redistributor;
      const partition::ModelNetwork model = partition::build_network(problem, redistributor);
      Replanner::Found found =
          replanner_.search(problem, redistributor, model, replanner_.task().source, plan_.bound_ps);
      alternative.plan = std::move(found.plan);
      alternative.bound = found.result.bound;
      if (!alternative.plan) alternative.why_not = why_none(found.result);
    } catch (const partition::PinError& error) {
      alternative.why_not = error.what();
    }
  }

  std::string why_none(const partition::PlanSearchResult& found) const {
    const bool is_infeasible = found.status == engine::Status::kInfeasible;
    if (found.points.empty()) return "memory aside, nothing else in the model goes with it";
    return fmt::format("{} within {} of memory", is_infeasible ? "no plan keeps" : "no plan was found",
                       bytes_text(problem_.pins.memory_limit_bytes));
  }

  Replanner& replanner_;
  const ExplainArguments& arguments_;
  const Problem& problem_;
  const WrittenPlan& plan_;
  std::vector<partition::Pin> pins_;
  std::optional<Wanted> wanted_;
  std::unordered_map<std::string_view, std::size_t> node_of_;  // of the plan, by key
};

}  // namespace

Wanted parse_want(const std::string& text, const costs::Mesh& mesh) {
  Wanted wanted;
  const auto fail = [&](const std::string& why) {
    throw io::InputError("--want", "",
                         fmt::format("{} in \"{}\"; expected one placement for each of {}, such as S(0),R, or some by "
                                     "name, such as {}=R",
                                     why, text, fmt::join(mesh.dim_names, ", "), mesh.dim_names.back()));
  };
  std::size_t begin = 0;
  std::size_t position = 0;
  std::size_t num_parts = 0;
  bool by_name = false;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string part = text.substr(begin, end - begin);
    part.erase(std::remove(part.begin(), part.end(), ' '), part.end());
    begin = end + 1;
    ++num_parts;
    if (const std::size_t equals = part.find('='); equals != std::string::npos) {
      by_name = true;
      const std::string name = part.substr(0, equals);
      const auto found = std::find(mesh.dim_names.begin(), mesh.dim_names.end(), name);
      if (found == mesh.dim_names.end()) fail(fmt::format("there is no mesh dim \"{}\"", name));
      position = static_cast<std::size_t>(found - mesh.dim_names.begin());
      part.erase(0, equals + 1);
    }
    if (position >= mesh.dim_names.size()) fail("too many placements");
    wanted[position] = costs::parse_placement(part);
    if (!wanted[position]) fail(fmt::format("\"{}\" is no placement", part));
    ++position;
  }
  if (!by_name && num_parts != mesh.dim_names.size()) fail("not one placement for each mesh dim");
  return wanted;
}

bool is_wanted(const Wanted& wanted, const Placements& placements) {
  for (std::size_t dim = 0; dim < wanted.size(); ++dim) {
    if (wanted[dim] && *wanted[dim] != placements.at[dim]) return false;
  }
  return true;
}

std::vector<Explained> find_alternatives(Replanner& replanner, const ExplainArguments& arguments) {
  return Asker(replanner, arguments).ask();
}

}  // namespace autopar::launch
