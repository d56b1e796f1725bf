#include "partition/point_usage.h"

#include <algorithm>
#include <cstddef>

#include "engine/index.h"

namespace autopar::partition {
namespace {

using costs::Graph;
using costs::Role;

using engine::ix;

class Collector {
 public:
  Collector(const Graph& graph, const std::vector<PhaseUses>& uses) : graph_(graph), uses_(uses) {
    usage_.nodes.resize(graph.nodes.size());
    usage_.copies.resize(uses.size());
    usage_.saved.resize(uses.size());
    usage_.kept.resize(uses.size());
    usage_.outputs.resize(graph.outputs.size());
    usage_.outputs_count.resize(graph.nodes.size());
    usage_.inputs_count.resize(graph.nodes.size());
  }

  void add(const Holding& holding, const engine::Span& points) {
    usage_.outputs_count[ix(holding.value.node)] = 1;
    if (holding.kind == Holding::Kind::kRead && use(holding).input >= 0) usage_.inputs_count[ix(use(holding).node)] = 1;
    if (holding.only_if_moved) {
      PointUsage::Moved& moved = usage_.moved[link(holding)];
      auto& spans = holding.making ? moved.making[static_cast<std::size_t>(*holding.making)] : moved.tensor;
      spans.push_back(points);
      moved.frees_source |= holding.frees_source;
      return;
    }
    switch (holding.kind) {
      case Holding::Kind::kValue: {
        const bool is_parameter = graph_.nodes[ix(holding.value.node)].role == Role::kParameter;
        usage_.nodes[ix(holding.value.node)].push_back(
            {holding.value, false, holding.value.output, points, is_parameter});
        break;
      }
      case Holding::Kind::kCopy:
        usage_.copies[ix(holding.uses)].push_back(points);
        break;
      case Holding::Kind::kKept:
        usage_.kept[ix(holding.uses)].push_back(points);
        break;
      case Holding::Kind::kSaved:
        usage_.saved[ix(holding.uses)].push_back(points);
        break;
      case Holding::Kind::kRead:
        add_read(holding, points);
        break;
      case Holding::Kind::kWorkspace:
        usage_.inputs_count[ix(holding.value.node)] = 1;
        usage_.nodes[ix(holding.value.node)].push_back({holding.value, false, 0, points, false, true});
        break;
    }
  }

  PointUsage take(std::vector<char> is_saved) {
    usage_.is_saved = std::move(is_saved);
    return std::move(usage_);
  }

 private:
  const Redistribution::Use& use(const Holding& holding) const { return uses_[ix(holding.uses)].uses[ix(holding.use)]; }

  static PointUsage::Link link(const Holding& holding) {
    if (holding.kind == Holding::Kind::kRead) return {holding.uses, holding.use};
    if (holding.kind == Holding::Kind::kKept) return {holding.uses, PointUsage::kKept};
    return {holding.uses, holding.kind == Holding::Kind::kCopy ? PointUsage::kCopy : PointUsage::kSaved};
  }

  void add_read(const Holding& holding, const engine::Span& points) {
    const Redistribution::Use& read = use(holding);
    if (read.input >= 0) {
      usage_.nodes[ix(read.node)].push_back({holding.value, true, read.input, points});
      return;
    }
    // A gradient has the placements of its parameter.
    const std::int32_t of = graph_.outputs[ix(read.node)].of;
    if (of < 0) {
      usage_.outputs[ix(read.node)].push_back(points);
    } else {
      usage_.nodes[ix(of)].push_back({holding.value, false, 0, points});
    }
  }

  const Graph& graph_;
  const std::vector<PhaseUses>& uses_;
  PointUsage usage_;
};

}  // namespace

PointUsage find_point_usage(const Graph& graph, const Timeline& timeline, const std::vector<PhaseUses>& uses,
                            const std::vector<std::int32_t>& points, const Windows* windows, bool may_be_missing) {
  const auto points_in = [&](const engine::Span& span) {
    const auto first = std::lower_bound(points.begin(), points.end(), span.start);
    const auto last = std::lower_bound(first, points.end(), span.end);
    return engine::Span{static_cast<std::int32_t>(first - points.begin()),
                        static_cast<std::int32_t>(last - points.begin())};
  };
  std::vector<char> is_saved(uses.size(), 0);
  Collector collector(graph, uses);
  if (!points.empty()) {
    const std::vector<engine::Span> spans = saved_spans(graph, timeline, uses);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const engine::Span at = points_in(spans[i]);
      is_saved[i] = at.start < at.end ? 1 : 0;
    }
    for (const Holding& holding : find_holdings(graph, timeline, uses, is_saved, windows, may_be_missing)) {
      const engine::Span at = points_in(holding.span);
      if (at.start < at.end) collector.add(holding, at);
    }
  }
  return collector.take(std::move(is_saved));
}

}  // namespace autopar::partition
