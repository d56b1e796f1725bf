#include <vector>

#include "costs/rules/helpers.h"
#include "costs/rules/rule.h"

/// Table look-ups and their gradients. A table cut by rows needs a local program: indices of other devices' rows are
/// masked ("vocabulary parallel" in Megatron-LM, Shoeybi et al. 2019).
namespace autopar::costs {
namespace {

using Strategies = std::vector<OneDimStrategy>;

/// embedding(weight, indices, padding_idx, ...)
Strategies embedding(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t index_rank = input_meta(graph, node, 1).rank();
  for (std::int64_t dim = 0; dim < index_rank; ++dim) {
    list.add({Split::replicate(), Split::shard(dim)}, Split::shard(dim));
  }
  list.add({Split::shard(1), Split::replicate()}, Split::shard(index_rank));
  list.add({Split::partial(), Split::replicate()}, Split::partial());
  list.add({Split::shard(0), Split::replicate()}, {Split::partial()}, {"embedding_masked"});
  return list.take();
}

/// embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq): scatters rows of the
/// gradient; scaling by the frequency of an index needs all indices.
Strategies embedding_backward(const Graph& graph, const Node& node) {
  StrategyList list(graph, node);
  const std::int64_t index_rank = input_meta(graph, node, 1).rank();
  if (!bool_arg(node, 4, "scale_grad_by_freq", false)) {
    for (std::int64_t dim = 0; dim < index_rank; ++dim) {
      list.add({Split::shard(dim), Split::shard(dim)}, Split::partial());
    }
  }
  list.add({Split::shard(index_rank), Split::replicate()}, Split::shard(1));
  list.add({Split::partial(), Split::replicate()}, Split::partial());
  list.add({Split::replicate(), Split::replicate()}, {Split::shard(0)}, {"embedding_dense_backward_masked"});
  return list.take();
}

constexpr RuleEntry kRules[] = {
    {"aten.embedding.default", embedding},
    {"aten.embedding_dense_backward.default", embedding_backward},
};

}  // namespace

std::span<const RuleEntry> embedding_rules() { return kRules; }

}  // namespace autopar::costs
