#include "partition/holdings.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "costs/views.h"

namespace autopar::partition {
namespace {

using costs::Graph;
using costs::Node;
using costs::Phase;
using costs::Role;
using costs::ValueRef;

std::size_t ix(std::int32_t i) { return static_cast<std::size_t>(i); }

/// Index into collect_uses() of a value's readers in each phase; -1: none.
struct Groups {
  std::int32_t forward = -1;
  std::int32_t backward = -1;
};

using GroupsOfValues = std::map<std::pair<std::int32_t, std::int32_t>, Groups>;

GroupsOfValues groups_of_values(const std::vector<PhaseUses>& uses) {
  GroupsOfValues groups;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    Groups& own = groups[{uses[i].value.node, uses[i].value.output}];
    (uses[i].phase == Phase::kForward ? own.forward : own.backward) = static_cast<std::int32_t>(i);
  }
  return groups;
}

/// The time points of one graph.
class Times {
 public:
  Times(const Graph& graph, const Timeline& timeline) : graph_(graph), timeline_(timeline) {}

  std::int32_t end() const { return timeline_.num_times(); }
  bool is_graph_input(std::int32_t node) const { return graph_.nodes[ix(node)].role != Role::kNone; }
  /// When `value` is there.
  std::int32_t made(ValueRef value) const { return is_graph_input(value.node) ? 0 : timeline_.run_time(value.node); }
  /// Whether it is ever in memory: what passes inside a fused kernel is only if it is moved.
  bool is_stored(ValueRef value) const {
    const costs::Fusion& fusion = graph_.nodes[ix(value.node)].fusion;
    return !fusion.is_fused || fusion.is_written[ix(value.output)] != 0;
  }
  /// When a reader gets `value`.
  std::int32_t read(ValueRef value, const Redistribution::Use& use) const {
    return use.input >= 0 ? timeline_.read_time(use.node) : made(value) + (is_graph_input(value.node) ? 0 : 1);
  }
  /// Until when it needs it itself.
  std::int32_t needed(const Redistribution::Use& use) const {
    return use.input >= 0 ? timeline_.run_time(use.node) : end() - 1;
  }
  /// Whether the outputs of a reader are views of what it reads.
  bool is_view(const Redistribution::Use& use) const {
    return use.input == 0 && costs::is_view(graph_.nodes[ix(use.node)].op);
  }
  const Node& node(std::int32_t index) const { return graph_.nodes[ix(index)]; }
  const Graph& graph() const { return graph_; }

 private:
  const Graph& graph_;
  const Timeline& timeline_;
};

/// When what is saved of a value is made: the read time behind all that touches it in the forward.
std::int32_t saved_time(const Times& times, ValueRef value, const std::vector<PhaseUses>& uses, std::int32_t forward) {
  std::int32_t last = times.made(value);
  if (forward >= 0) {
    for (const Redistribution::Use& use : uses[ix(forward)].uses) {
      last = std::max(last, use.input >= 0 ? times.needed(use) : times.read(value, use));
    }
  }
  return last + 1 + (last + 1) % 2;
}

std::int32_t first_read(const Times& times, const PhaseUses& uses) {
  std::int32_t first = times.end();
  for (const Redistribution::Use& use : uses.uses) first = std::min(first, times.read(uses.value, use));
  return first;
}

/// The tensors of one storage, if nothing is moved: what a node makes, and all that is read, copied or viewed of it.
class Tree {
 public:
  Tree(const Times& times, const std::vector<PhaseUses>& uses, const std::vector<char>& is_saved,
       const GroupsOfValues& groups)
      : times_(times), uses_(uses), is_saved_(is_saved), groups_(groups) {}

  void collect(ValueRef root, std::vector<Holding>& out) {
    tensors_.clear();
    const bool is_input = times_.is_graph_input(root.node);
    const std::int32_t made = times_.made(root);
    add({Holding::Kind::kValue, root, -1, -1, made, is_input ? times_.end() - 1 : made, true, {}}, -1);
    add_readers(0, root);
    std::vector<std::int32_t> changes;
    for (const Tensor& tensor : tensors_) {
      changes.push_back(tensor.made);
      changes.push_back(tensor.last + 1);
    }
    std::sort(changes.begin(), changes.end());
    changes.erase(std::unique(changes.begin(), changes.end()), changes.end());
    for (const Tensor& tensor : tensors_) {
      if (tensor.kind == Holding::Kind::kValue) continue;
      out.push_back({tensor.kind, tensor.value, tensor.uses, tensor.use, true, true, {tensor.made, tensor.made + 1}});
    }
    open_.assign(tensors_.size() * 2, -1);
    for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
      now_ = {changes[i], changes[i + 1]};
      find_needed();
      if (times_.is_stored(root)) {
        count(0, false, out);
      } else {
        for (const std::size_t other : tensors_[0].made_from_it) count(other, true, out);
      }
    }
  }

 private:
  struct Tensor {
    Holding::Kind kind = Holding::Kind::kValue;
    ValueRef value;
    std::int32_t uses = -1;
    std::int32_t use = -1;
    std::int32_t made = 0;
    std::int32_t last = 0;     ///< when it is needed for itself, or others are made from it
    bool has_its_size = true;  ///< false: a view of part of what is stored, so what is made from it may be smaller
    std::vector<std::size_t> made_from_it;
  };

  std::size_t add(Tensor tensor, std::int64_t from) {
    const std::size_t index = tensors_.size();
    if (from >= 0) {
      Tensor& source = tensors_[static_cast<std::size_t>(from)];
      source.made_from_it.push_back(index);
      source.last = std::max(source.last, tensor.made);
    }
    tensors_.push_back(std::move(tensor));
    return index;
  }

  void add_readers(std::size_t tensor, ValueRef value) {
    const auto found = groups_.find({value.node, value.output});
    if (found == groups_.end()) return;
    for (const std::int32_t group : {found->second.forward, found->second.backward}) {
      if (group >= 0) add_group(tensor, value, group, found->second.forward);
    }
  }

  void add_group(std::size_t tensor, ValueRef value, std::int32_t group, std::int32_t forward) {
    const PhaseUses& uses = uses_[ix(group)];
    const std::int32_t first = first_read(times_, uses);
    auto from = static_cast<std::int64_t>(tensor);
    if (is_saved_[ix(group)]) {
      const std::int32_t made = saved_time(times_, value, uses_, forward);
      from = static_cast<std::int64_t>(add({Holding::Kind::kSaved, value, group, -1, made, made, true, {}}, from));
    }
    if (uses.uses.size() > 1) {
      from = static_cast<std::int64_t>(add({Holding::Kind::kCopy, value, group, -1, first, first, true, {}}, from));
    }
    for (std::size_t u = 0; u < uses.uses.size(); ++u) {
      const Redistribution::Use& use = uses.uses[u];
      const std::size_t read = add({Holding::Kind::kRead,
                                    value,
                                    group,
                                    static_cast<std::int32_t>(u),
                                    times_.read(value, use),
                                    times_.needed(use),
                                    true,
                                    {}},
                                   from);
      if (!times_.is_view(use)) continue;
      const Node& view = times_.node(use.node);
      for (std::size_t o = 0; o < view.outputs.size(); ++o) {
        if (!view.outputs[o]) continue;
        if (view.outputs[o]->numel() != times_.graph().meta(value).numel()) tensors_[read].has_its_size = false;
        add_readers(read, {use.node, static_cast<std::int32_t>(o)});
      }
    }
  }

  /// Which tensors are needed now: for themselves, or as the storage of others. Those made from a tensor stand behind
  /// it.
  void find_needed() {
    needed_.assign(tensors_.size(), 0);
    num_needing_.assign(tensors_.size(), 0);
    for (std::size_t i = tensors_.size(); i-- > 0;) {
      const Tensor& tensor = tensors_[i];
      if (tensor.made > now_.start) continue;
      for (const std::size_t other : tensor.made_from_it) num_needing_[i] += needed_[other];
      needed_[i] = tensor.last >= now_.start || num_needing_[i] > 0 ? 1 : 0;
    }
  }

  /// `is_counted`: a tensor that this one is made from counts already.
  void count(std::size_t index, bool is_counted, std::vector<Holding>& out) {
    if (needed_[index] == 0) return;
    const Tensor& tensor = tensors_[index];
    const bool is_passed_on = tensor.last < now_.start && num_needing_[index] == 1 && tensor.has_its_size;
    if (is_counted || !is_passed_on) {
      std::int64_t& open = open_[2 * index + (is_counted ? 1 : 0)];
      if (open >= 0 && out[static_cast<std::size_t>(open)].span.end == now_.start) {
        out[static_cast<std::size_t>(open)].span.end = now_.end;
      } else {
        open = static_cast<std::int64_t>(out.size());
        out.push_back({tensor.kind, tensor.value, tensor.uses, tensor.use, is_counted, false, now_});
      }
      is_counted = true;
    }
    for (const std::size_t other : tensor.made_from_it) count(other, is_counted, out);
  }

  const Times& times_;
  const std::vector<PhaseUses>& uses_;
  const std::vector<char>& is_saved_;
  const GroupsOfValues& groups_;
  std::vector<Tensor> tensors_;
  engine::Span now_;
  std::vector<int> needed_;
  std::vector<int> num_needing_;
  std::vector<std::int64_t> open_;  // per tensor, and whether counted: the holding that was found last
};

}  // namespace

Timeline Timeline::of(const Graph& graph) {
  Timeline timeline;
  timeline.place.assign(graph.nodes.size(), -1);
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (graph.nodes[i].role != Role::kNone || graph.nodes[i].phase != phase) continue;
      timeline.place[i] = static_cast<std::int32_t>(timeline.node_at.size());
      timeline.node_at.push_back(static_cast<std::int32_t>(i));
    }
  }
  return timeline;
}

std::vector<Holding> find_holdings(const Graph& graph, const Timeline& timeline, const std::vector<PhaseUses>& uses,
                                   const std::vector<char>& is_saved) {
  const GroupsOfValues groups = groups_of_values(uses);
  const Times times(graph, timeline);
  Tree tree(times, uses, is_saved, groups);
  std::vector<Holding> holdings;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (costs::is_view(graph.nodes[i].op)) continue;
    for (std::size_t o = 0; o < graph.nodes[i].outputs.size(); ++o) {
      if (!graph.nodes[i].outputs[o]) continue;
      tree.collect({static_cast<std::int32_t>(i), static_cast<std::int32_t>(o)}, holdings);
    }
  }
  return holdings;
}

std::vector<engine::Span> saved_spans(const Graph& graph, const Timeline& timeline,
                                      const std::vector<PhaseUses>& uses) {
  const GroupsOfValues groups = groups_of_values(uses);
  const Times times(graph, timeline);
  std::vector<engine::Span> spans(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Node& producer = graph.nodes[ix(uses[i].value.node)];
    if (uses[i].phase != Phase::kBackward || producer.role != Role::kNone || producer.phase != Phase::kForward)
      continue;
    const Groups& own = groups.at({uses[i].value.node, uses[i].value.output});
    const std::int32_t made = saved_time(times, uses[i].value, uses, own.forward);
    const std::int32_t read = first_read(times, uses[i]);
    if (made < read) spans[i] = {made, read + 1};
  }
  return spans;
}

}  // namespace autopar::partition
