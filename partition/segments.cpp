#include "partition/segments.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/index.h"

namespace autopar::partition {
namespace {

using costs::Graph;
using costs::Node;
using costs::Phase;
using costs::Role;
using costs::ValueRef;

constexpr std::int32_t kNoSegment = std::numeric_limits<std::int32_t>::max();

using engine::ix;

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// A layer as part of a module path: "model.layers.3" in "model.layers.3.mlp". Empty: the path is in no layer.
struct LayerPath {
  std::string_view stack;  ///< "model.layers"
  std::string_view layer;  ///< "model.layers.3"
};

LayerPath layer_path(std::string_view path) {
  for (std::size_t start = 0; start < path.size();) {
    const std::size_t end = std::min(path.find('.', start), path.size());
    if (is_number(path.substr(start, end - start))) return {path.substr(0, start), path.substr(0, end)};
    start = end + 1;
  }
  return {};
}

/// Fills Segments::of_node in passes: forward, backward, what is left, graph inputs.
class SegmentFinder {
 public:
  explicit SegmentFinder(const Graph& graph) : graph_(graph), of_node_(graph.nodes.size(), kNoSegment) {}

  Segments run() {
    find_layers();
    place_forward();
    place_backward();
    place_by_readers();
    Segments segments;
    segments.count = std::max(num_segments_, 1);
    for (std::int32_t& segment : of_node_) {
      if (segment == kNoSegment) segment = 0;
    }
    segments.of_node = std::move(of_node_);
    return segments;
  }

 private:
  struct Span {
    std::int32_t first = -1;
    std::int32_t last = -1;
  };

  bool is_forward_op(std::size_t node) const {
    return graph_.nodes[node].role == Role::kNone && graph_.nodes[node].phase == Phase::kForward;
  }

  void find_layers() {
    layer_.resize(graph_.nodes.size());
    const bool has_modules =
        std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [](const Node& node) { return !node.module.empty(); });
    LayerPath current;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.role != Role::kNone) continue;
      if (has_modules) {
        layer_[i] = layer_path(node.module);
      } else if (node.phase == Phase::kForward) {
        layer_[i] = current = layer_by_parameters(node, current);
      }
      if (!is_forward_op(i) || layer_[i].layer.empty()) continue;
      const auto position = static_cast<std::int32_t>(i);
      stacks_.try_emplace(layer_[i].stack, Span{position, position}).first->second.last = position;
    }
  }

  /// The layer of the parameters that `node` reads; without any, it goes on where the node before it was.
  LayerPath layer_by_parameters(const Node& node, LayerPath current) const {
    for (const ValueRef& input : node.inputs) {
      const Node& producer = graph_.nodes[ix(input.node)];
      if (producer.role == Role::kParameter) current = layer_path(producer.name);
    }
    return current;
  }

  void place_forward() {
    std::unordered_map<std::string_view, std::int32_t> by_layer;
    std::map<std::ptrdiff_t, std::int32_t> by_gap;
    std::int32_t recent = kNoSegment;  // of the last layer node
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!is_forward_op(i)) continue;
      std::int32_t& segment = of_node_[i];
      if (!layer_[i].layer.empty()) {
        segment = recent = by_layer.try_emplace(layer_[i].layer, num_segments_).first->second;
      } else if (inside_stack(static_cast<std::int32_t>(i))) {
        segment = recent;
      } else {
        const auto position = static_cast<std::int32_t>(i);
        const std::ptrdiff_t gap = std::count_if(stacks_.begin(), stacks_.end(),
                                                 [&](const auto& stack) { return stack.second.first < position; });
        segment = by_gap.try_emplace(gap, num_segments_).first->second;
      }
      num_segments_ = std::max(num_segments_, segment + 1);
    }
    segment_of_layer_ = std::move(by_layer);
  }

  bool inside_stack(std::int32_t position) const {
    return std::any_of(stacks_.begin(), stacks_.end(), [&](const auto& stack) {
      return stack.second.first < position && position < stack.second.last;
    });
  }

  void place_backward() {
    // Where a module or sequence number stands for several segments, the last one counts: the backward starts there,
    // and what a node reads moves it to an earlier one.
    std::unordered_map<std::string_view, std::int32_t> by_module;
    std::unordered_map<std::int64_t, std::int32_t> by_seq;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!is_forward_op(i)) continue;
      const Node& node = graph_.nodes[i];
      if (!node.module.empty()) by_module[node.module] = of_node_[i];
      if (node.seq >= 0) by_seq[node.seq] = of_node_[i];
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.role != Role::kNone || node.phase != Phase::kBackward) continue;
      const auto layer = segment_of_layer_.find(layer_[i].layer);
      if (!layer_[i].layer.empty() && layer != segment_of_layer_.end()) {
        of_node_[i] = layer->second;
        continue;
      }
      std::int32_t segment = kNoSegment;
      const auto seq = by_seq.find(node.seq);
      const auto module = by_module.find(node.module);
      if (seq != by_seq.end()) {
        segment = seq->second;
      } else if (module != by_module.end()) {
        segment = module->second;
      }
      of_node_[i] = std::min(segment, earliest_backward_input(node));
    }
  }

  std::int32_t earliest_backward_input(const Node& node) const {
    std::int32_t earliest = kNoSegment;
    for (const ValueRef& input : node.inputs) {
      if (graph_.nodes[ix(input.node)].phase != Phase::kBackward) continue;
      earliest = std::min(earliest, of_node_[ix(input.node)]);
    }
    return earliest;
  }

  /// Graph inputs, and backward nodes of which nothing is known, go with the first node that reads them.
  void place_by_readers() {
    std::vector<std::int32_t> first_reader(graph_.nodes.size(), -1);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const ValueRef& input : graph_.nodes[i].inputs) {
        std::int32_t& reader = first_reader[ix(input.node)];
        if (reader < 0) reader = static_cast<std::int32_t>(i);
      }
    }
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      if (of_node_[i] == kNoSegment && first_reader[i] >= 0) of_node_[i] = of_node_[ix(first_reader[i])];
    }
  }

  const Graph& graph_;
  std::vector<std::int32_t> of_node_;
  std::vector<LayerPath> layer_;             // per node
  std::map<std::string_view, Span> stacks_;  // where the forward is in each
  std::unordered_map<std::string_view, std::int32_t> segment_of_layer_;
  std::int32_t num_segments_ = 0;
};

}  // namespace

Segments find_segments(const Graph& graph) { return SegmentFinder(graph).run(); }

}  // namespace autopar::partition
