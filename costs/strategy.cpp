#include "costs/strategy.h"

#include <algorithm>
#include <cstddef>
#include <string>

namespace autopar::costs {
namespace {

/// Whether the shards chosen so far for one tensor are exact. `splits` are the choices on mesh dims of more than one
/// device.
bool splits_fit(const TensorMeta& tensor, const std::vector<const Split*>& splits, const Placements& placements,
                const Mesh& mesh) {
  if (!is_legal(tensor, placements, mesh)) return false;
  for (const Split* split : splits) {
    if (!split->placement.is_shard()) continue;
    const int dim = split->placement.dim();
    const std::int64_t size = tensor.shape[static_cast<std::size_t>(dim)];
    const std::int64_t units = split->units == 0 ? size : split->units;
    const std::int64_t n = num_shards(placements, mesh, dim);
    if (split->even ? units % n != 0 : units < n) return false;
  }
  return true;
}

/// Picks one one-dim strategy per mesh dim, mesh dim 0 first, and keeps the legal picks.
class Combiner {
 public:
  Combiner(const Graph& graph, const Node& node, const std::vector<OneDimStrategy>& one_dim, const Mesh& mesh)
      : graph_(graph), node_(node), one_dim_(one_dim), mesh_(mesh) {}

  std::vector<Strategy> run() {
    pick(0);
    return std::move(found_);
  }

 private:
  void pick(int mesh_dim) {
    if (!fits(mesh_dim)) return;
    if (mesh_dim == mesh_.rank()) {
      found_.push_back(make());
      return;
    }
    const std::size_t count = is_trivial(mesh_dim) ? 1 : one_dim_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& name = mesh_.dim_names[static_cast<std::size_t>(mesh_dim)];
      if (!is_trivial(mesh_dim) && !is_for(one_dim_[i].mesh_dims, name)) continue;
      choice_.push_back(i);
      pick(mesh_dim + 1);
      choice_.pop_back();
    }
  }

  bool is_trivial(int mesh_dim) const { return mesh_.shape[static_cast<std::size_t>(mesh_dim)] == 1; }

  // More cuts never repair a broken one, so a prefix that does not fit ends here.
  bool fits(int mesh_dim) const {
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      const auto at = [&](std::size_t choice) -> const Split& { return one_dim_[choice].inputs[i]; };
      if (!tensor_fits(graph_.meta(node_.inputs[i]), mesh_dim, at)) return false;
    }
    for (std::size_t o = 0; o < node_.outputs.size(); ++o) {
      if (!node_.outputs[o]) continue;
      const auto at = [&](std::size_t choice) -> const Split& { return one_dim_[choice].outputs[o]; };
      if (!tensor_fits(*node_.outputs[o], mesh_dim, at)) return false;
    }
    return true;
  }

  template <typename At>
  bool tensor_fits(const TensorMeta& tensor, int mesh_dim, const At& at) const {
    std::vector<const Split*> splits;
    Placements placements;
    for (int d = 0; d < mesh_dim; ++d) {
      if (is_trivial(d)) continue;
      const Split& split = at(choice_[static_cast<std::size_t>(d)]);
      splits.push_back(&split);
      placements[d] = split.placement;
    }
    return splits_fit(tensor, splits, placements, mesh_);
  }

  Strategy make() const {
    Strategy strategy;
    strategy.inputs.resize(node_.inputs.size());
    strategy.outputs.resize(node_.outputs.size());
    for (int d = 0; d < mesh_.rank(); ++d) {
      const std::size_t choice = choice_[static_cast<std::size_t>(d)];
      strategy.one_dim[static_cast<std::size_t>(d)] = static_cast<std::uint16_t>(choice);
      if (is_trivial(d)) continue;
      strategy.programs[static_cast<std::size_t>(d)] = one_dim_[choice].program;
      for (std::size_t i = 0; i < strategy.inputs.size(); ++i) {
        strategy.inputs[i][d] = one_dim_[choice].inputs[i].placement;
      }
      for (std::size_t o = 0; o < strategy.outputs.size(); ++o) {
        strategy.outputs[o][d] = one_dim_[choice].outputs[o].placement;
      }
    }
    return strategy;
  }

  const Graph& graph_;
  const Node& node_;
  const std::vector<OneDimStrategy>& one_dim_;
  const Mesh& mesh_;
  std::vector<std::size_t> choice_;
  std::vector<Strategy> found_;
};

}  // namespace

bool is_for(const std::vector<std::string>& mesh_dims, const std::string& name) {
  return mesh_dims.empty() || std::find(mesh_dims.begin(), mesh_dims.end(), name) != mesh_dims.end();
}

std::vector<Strategy> combine(const Graph& graph, const Node& node, const std::vector<OneDimStrategy>& one_dim,
                              const Mesh& mesh) {
  return Combiner(graph, node, one_dim, mesh).run();
}

}  // namespace autopar::costs
