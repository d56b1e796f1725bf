#include "partition/dominance.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace autopar::partition {
namespace {

using costs::Placements;
using costs::RedistributeTable;
using costs::Strategy;
using engine::Cost;

/// One tensor of a node: each strategy's placement as a state of the tensor's redistributions.
struct TensorStates {
  const RedistributeTable* times = nullptr;
  Cost weight = 1;
  bool is_fixed = false;
  std::vector<int> state;
};

class Dominance {
 public:
  Dominance(const costs::Graph& graph, const costs::Node& node, const costs::Redistributor& redistributor,
            const NodeContext& context, const std::vector<Strategy>& strategies, const std::vector<Cost>& prices)
      : prices_(prices) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      inputs_.push_back(states(redistributor.table(graph.meta(node.inputs[i])), strategies, &Strategy::inputs, i));
      inputs_.back().is_fixed = context.inputs_count;
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (context.num_readers[o] == 0) continue;
      outputs_.push_back(states(redistributor.table(*node.outputs[o]), strategies, &Strategy::outputs, o));
      outputs_.back().weight = context.num_readers[o];
      outputs_.back().is_fixed = context.outputs_count;
    }
  }

  /// The strategies to keep, ascending.
  std::vector<std::size_t> keep() const {
    std::vector<std::size_t> order(prices_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // A stand-in is never dearer, so in this order all that could stand in have been seen, but for equal prices.
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return prices_[a] < prices_[b]; });
    std::vector<std::size_t> kept;
    for (const std::size_t candidate : order) {
      const auto stands_in = [&](std::size_t other) { return can_stand_in(other, candidate); };
      // What stood in last is likely to do so again.
      if (!std::any_of(kept.rbegin(), kept.rend(), stands_in)) kept.push_back(candidate);
    }
    for (std::size_t i = kept.size(); i-- > 0;) {
      const auto stands_in = [&](std::size_t other) {
        return other != kept[i] && prices_[other] == prices_[kept[i]] && can_stand_in(other, kept[i]);
      };
      if (std::any_of(kept.begin(), kept.end(), stands_in)) kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    }
    std::sort(kept.begin(), kept.end());
    return kept;
  }

 private:
  static TensorStates states(const RedistributeTable& times, const std::vector<Strategy>& strategies,
                             std::vector<Placements> Strategy::*side, std::size_t position) {
    TensorStates result{&times, 1, false, {}};
    std::vector<Placements> unknown;
    for (const Strategy& strategy : strategies) {
      const Placements& placements = (strategy.*side)[position];
      int state = times.index_of(placements);
      if (state < 0) {
        // Negative states tell placements apart that the redistributor does not know.
        const auto found = std::find(unknown.begin(), unknown.end(), placements);
        state = -1 - static_cast<int>(found - unknown.begin());
        if (found == unknown.end()) unknown.push_back(placements);
      }
      result.state.push_back(state);
    }
    return result;
  }

  static Cost time_ps(const TensorStates& tensor, std::size_t from, std::size_t to) {
    const int a = tensor.state[from];
    const int b = tensor.state[to];
    if (a == b) return 0;
    if (a < 0 || b < 0 || tensor.is_fixed) return RedistributeTable::kUnreachable;
    return tensor.times->time_ps(a, b) * tensor.weight;
  }

  bool can_stand_in(std::size_t other, std::size_t strategy) const {
    Cost left = prices_[strategy] - prices_[other];
    for (const TensorStates& input : inputs_) {
      if (left < 0) return false;
      left -= std::min(time_ps(input, strategy, other), engine::kForbidden);
    }
    for (const TensorStates& output : outputs_) {
      if (left < 0) return false;
      left -= std::min(time_ps(output, other, strategy), engine::kForbidden);
    }
    return left >= 0;
  }

  const std::vector<Cost>& prices_;
  std::vector<TensorStates> inputs_;
  std::vector<TensorStates> outputs_;
};

}  // namespace

void drop_dominated(const costs::Graph& graph, const costs::Node& node, const costs::Redistributor& redistributor,
                    const NodeContext& context, std::vector<Strategy>& strategies, std::vector<engine::Cost>& prices) {
  const std::vector<std::size_t> kept = Dominance(graph, node, redistributor, context, strategies, prices).keep();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == i) continue;
    strategies[i] = std::move(strategies[kept[i]]);
    prices[i] = prices[kept[i]];
  }
  strategies.resize(kept.size());
  prices.resize(kept.size());
}

}  // namespace autopar::partition
