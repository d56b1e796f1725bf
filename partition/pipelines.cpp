#include "partition/pipelines.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "costs/compute.h"
#include "costs/views.h"
#include "engine/index.h"
#include "partition/choices.h"

namespace autopar::partition {

using costs::Node;
using costs::RedistributeStep;
using engine::ix;
using Kind = RedistributeStep::Kind;

namespace {

/// Rows stay rows.
bool is_row_view(std::string_view op) {
  return costs::is_view(op) && op != "aten.t.default" && op != "aten.transpose.int" && op != "aten.permute.default";
}

bool cuts_last_dim(const RedistributeStep& step, const costs::Mesh& mesh, std::size_t num_dims) {
  const costs::Placements& cut = step.kind == Kind::kAllGather ? step.from : step.to;
  for (int dim = 0; dim < mesh.rank(); ++dim) {
    if ((step.mesh_dims >> dim & 1U) == 0 || !cut[dim].is_shard()) continue;
    if (cut[dim].dim() + 1 == static_cast<std::int64_t>(num_dims)) return true;
  }
  return false;
}

std::int64_t group_size(const RedistributeStep& step, const costs::Mesh& mesh) {
  std::int64_t size = 1;
  for (int dim = 0; dim < mesh.rank(); ++dim) {
    if ((step.mesh_dims >> dim & 1U) != 0) size *= mesh.shape[static_cast<std::size_t>(dim)];
  }
  return size;
}

}  // namespace

const RedistributeStep* step_in_pieces(const std::vector<RedistributeStep>& steps) {
  if (steps.size() != 1) return nullptr;
  const bool is_such = steps[0].kind == Kind::kAllGather || steps[0].kind == Kind::kReduceScatter;
  return is_such ? &steps[0] : nullptr;
}

Pipelines::Pipelines(const Problem& problem, const std::vector<PhaseUses>& uses)
    : problem_(problem), uses_(uses), gives_(problem.graph.nodes.size(), -1), reads_(problem.graph.nodes.size()) {
  if (problem.cluster.device.matmul_overlap <= 0) return;
  const std::vector<Node>& nodes = problem.graph.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (costs::left_matrix(nodes[i].op) >= 0) {
      gives_[i] = static_cast<std::int32_t>(i);
      reads_[i] = {static_cast<std::int32_t>(i)};
    } else if (is_row_view(nodes[i].op) && !nodes[i].inputs.empty()) {
      gives_[i] = gives_[ix(nodes[i].inputs[0].node)];
    }
  }
  for (std::size_t i = nodes.size(); i-- > 0;) {
    for (std::size_t input = 0; input < nodes[i].inputs.size(); ++input) {
      const auto source = ix(nodes[i].inputs[input].node);
      if (!is_row_view(nodes[source].op) || nodes[source].phase != nodes[i].phase) continue;
      if (!is_left_of(static_cast<std::int32_t>(i), static_cast<std::int32_t>(input))) continue;
      reads_[source].insert(reads_[source].end(), reads_[i].begin(), reads_[i].end());
    }
  }
}

bool Pipelines::is_left_of(std::int32_t node, std::int32_t input) const {
  const std::string_view op = problem_.graph.nodes[ix(node)].op;
  return input == (is_row_view(op) ? 0 : costs::left_matrix(op));
}

std::vector<std::int32_t> Pipelines::readers(const std::vector<Redistribution::Use>& uses) const {
  std::vector<std::int32_t> found;
  for (const Redistribution::Use& use : uses) {
    if (use.input < 0 || !is_left_of(use.node, use.input)) continue;
    found.insert(found.end(), reads_[ix(use.node)].begin(), reads_[ix(use.node)].end());
  }
  return found;
}

std::vector<std::int32_t> Pipelines::around(std::int32_t entry) const {
  std::vector<std::int32_t> found = readers(uses_[ix(entry)].uses);
  found.insert(found.begin(), producer(entry));
  return found;
}

std::vector<std::int32_t> Pipelines::matmuls(std::int32_t entry, const std::vector<Redistribution::Use>& readers,
                                             const RedistributeStep& step) const {
  const std::size_t num_dims = problem_.graph.meta(uses_[ix(entry)].value).shape.size();
  if (cuts_last_dim(step, problem_.mesh, num_dims)) return {};
  if (step.kind == Kind::kAllGather) return this->readers(readers);
  if (producer(entry) < 0) return {};
  return {producer(entry)};
}

bool Pipelines::fits(std::int32_t matmul, const costs::Strategy& strategy, const RedistributeStep& step) const {
  const bool gathers = step.kind == Kind::kAllGather;
  const auto left = ix(costs::left_matrix(problem_.graph.nodes[ix(matmul)].op));
  const costs::Placements& moved = gathers ? step.to : step.from;
  const costs::Placements& own = gathers ? strategy.inputs[left] : strategy.outputs[0];
  for (int dim = 0; dim < problem_.mesh.rank(); ++dim) {
    if (own[dim].is_shard() != moved[dim].is_shard() || own[dim].is_partial() != moved[dim].is_partial()) return false;
    const bool is_gathered = gathers && (step.mesh_dims >> dim & 1U) != 0;
    if (is_gathered && !strategy.inputs[left + 1][dim].is_shard()) return false;
  }
  return true;
}

Pipelines::Times Pipelines::times(std::int32_t matmul, const costs::Strategy& strategy, std::int64_t num_pieces) const {
  const Node& node = problem_.graph.nodes[ix(matmul)];
  return {costs::compute_ps(problem_.graph, node, strategy, problem_.mesh, problem_.cluster),
          costs::matmul_piece_ps(problem_.graph, node, strategy, problem_.mesh, problem_.cluster, num_pieces)};
}

// What each device gets for its piece is stored, then read and added up.
std::int64_t Pipelines::sum_ps(const RedistributeStep& step) const {
  if (step.kind != Kind::kReduceScatter) return 0;
  const double moved = static_cast<double>(step.bytes) * (1 + 1 / static_cast<double>(group_size(step, problem_.mesh)));
  return std::llround(moved / problem_.cluster.device.memory_bandwidth * 1e12);
}

std::int64_t Pipelines::hidden_ps(const RedistributeStep& step, const std::vector<std::int32_t>& matmuls,
                                  const StrategyOf& strategy_of) const {
  const std::int64_t num_pieces = group_size(step, problem_.mesh);
  Times sum;
  for (const std::int32_t matmul : matmuls) {
    const costs::Strategy* strategy = strategy_of(matmul);
    if (strategy == nullptr || !fits(matmul, *strategy, step)) continue;
    const Times own = times(matmul, *strategy, num_pieces);
    sum.whole_ps += own.whole_ps;
    sum.piece_ps += own.piece_ps;
  }
  const std::int64_t busy_ps = std::max(num_pieces * sum.piece_ps, step.time_ps + sum.piece_ps);
  const std::int64_t waited_ps = busy_ps - sum.whole_ps + sum_ps(step);
  return reached(step.time_ps - waited_ps);
}

std::int64_t Pipelines::most_hidden_ps(const RedistributeStep& step, const std::vector<std::int32_t>& matmuls,
                                       const StrategiesOf& strategies_of) const {
  const std::int64_t num_pieces = group_size(step, problem_.mesh);
  std::int64_t most_ps = 0;
  std::int64_t least_lost_ps = step.time_ps;  // by small pieces, of any matmul that takes part
  for (const std::int32_t matmul : matmuls) {
    std::int64_t own_ps = 0;
    for (const costs::Strategy& strategy : strategies_of(matmul)) {
      if (strategy.outputs[0] == not_there() || !fits(matmul, strategy, step)) continue;
      const auto [whole_ps, piece_ps] = times(matmul, strategy, num_pieces);
      own_ps = std::max(own_ps, whole_ps - piece_ps);
      least_lost_ps = std::min(least_lost_ps, num_pieces * piece_ps - whole_ps);
    }
    most_ps += own_ps;
  }
  return reached(std::min(step.time_ps - least_lost_ps, most_ps) - sum_ps(step));
}

std::int64_t Pipelines::reached(std::int64_t gained_ps) const {
  const double share = problem_.cluster.device.matmul_overlap;
  return std::llround(share * static_cast<double>(std::max<std::int64_t>(gained_ps, 0)));
}

std::int64_t PipelineTimer::hidden_ps(std::int32_t entry, const std::vector<Redistribution::Use>& readers,
                                      const RedistributeStep& step) {
  std::vector<std::int32_t> matmuls = pipelines_.matmuls(entry, readers, step);
  std::erase_if(matmuls, [&](std::int32_t one) { return taken_.contains(one); });
  if (matmuls.empty()) return 0;
  taken_.insert(matmuls.begin(), matmuls.end());
  return pipelines_.hidden_ps(step, matmuls, strategy_of_);
}

}  // namespace autopar::partition
