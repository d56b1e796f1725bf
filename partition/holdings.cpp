#include "partition/holdings.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "costs/local_program.h"
#include "costs/views.h"
#include "engine/index.h"

namespace autopar::partition {
namespace {

using costs::Graph;
using costs::Node;
using costs::Phase;
using costs::Role;
using costs::ValueRef;

using engine::ix;

/// The time points of one graph.
class Times {
 public:
  Times(const Graph& graph, const Timeline& timeline, const Windows* windows)
      : graph_(graph), timeline_(timeline), windows_(windows) {}

  std::int32_t end() const { return timeline_.num_times(); }
  /// From when to when the first redistribution of an entry of uses is in flight.
  std::optional<engine::Span> flight(std::int32_t uses) const {
    if (windows_ == nullptr || !windows_->flight(uses).exists()) return {};
    const Flight& flight = windows_->flight(uses);
    const std::int32_t finish = flight.finish < 0 ? end() - 1 : timeline_.first_time[ix(flight.finish)];
    return engine::Span{timeline_.first_time[ix(flight.start)], finish};
  }
  bool is_graph_input(std::int32_t node) const { return graph_.nodes[ix(node)].role != Role::kNone; }
  /// When `value` is there.
  std::int32_t made(ValueRef value) const {
    return is_graph_input(value.node) ? 0 : earliest(value.node, timeline_.run_time(value.node));
  }
  /// When what `node` gave is redistributed for others than nodes.
  std::int32_t given(std::int32_t node) const { return timeline_.give_time(node); }
  /// Whether it is ever in memory: what passes inside a fused kernel is only if it is moved.
  bool is_stored(ValueRef value) const {
    const costs::Fusion& fusion = graph_.nodes[ix(value.node)].fusion;
    return !fusion.is_fused || fusion.is_written[ix(value.output)] != 0;
  }
  /// When a reader gets `value`.
  std::int32_t read(ValueRef value, const Redistribution::Use& use) const {
    if (use.input >= 0) return earliest(use.node, timeline_.read_time(use.node, use.input));
    return is_graph_input(value.node) ? 0 : timeline_.give_time(value.node);
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
  /// `time` of a node, or when it runs ahead of its turn.
  std::int32_t earliest(std::int32_t node, std::int32_t time) const {
    const std::int32_t needed_at = windows_ == nullptr ? -1 : windows_->needed_at(node);
    return needed_at < 0 ? time : timeline_.first_time[ix(needed_at)];
  }

  const Graph& graph_;
  const Timeline& timeline_;
  const Windows* windows_;
};

/// When what is saved of a value is made: behind the last node that touches it in the forward.
std::int32_t saved_time(const Times& times, ValueRef value, const std::vector<PhaseUses>& uses, std::int32_t forward) {
  std::int32_t last = times.given(value.node);
  if (forward >= 0) {
    for (const Redistribution::Use& use : uses[ix(forward)].uses) {
      if (use.input >= 0) last = std::max(last, times.given(use.node));
    }
  }
  return last;
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
       const UsesOfValues& groups, bool may_be_missing)
      : times_(times),
        uses_(uses),
        is_saved_(is_saved),
        may_be_kept_(may_be_kept(times.graph(), uses)),
        groups_(groups),
        may_be_missing_(may_be_missing) {}

  void collect(ValueRef root, std::vector<Holding>& out) {
    tensors_.clear();
    const bool is_input = times_.is_graph_input(root.node);
    const std::int32_t made = times_.made(root);
    add({Holding::Kind::kValue, root, -1, -1, made, is_input ? times_.end() - 1 : made}, -1);
    add_readers(0, root);
    free_sources();
    std::vector<std::int32_t> changes;
    for (const Tensor& tensor : tensors_) {
      changes.push_back(tensor.made);
      changes.push_back(tensor.last + 1);
    }
    std::sort(changes.begin(), changes.end());
    changes.erase(std::unique(changes.begin(), changes.end()), changes.end());
    for (const Tensor& tensor : tensors_) {
      if (tensor.kind != Holding::Kind::kValue) add_makings(tensor, out);
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
    std::int32_t last = 0;                    ///< when it is needed for itself, or others are made from it
    std::optional<engine::Span> flight = {};  ///< of the redistribution that makes it
    std::int32_t read = 0;                    ///< when it is made, if that has no flight
    bool has_its_size = true;  ///< false: a view of part of what is stored, so what is made from it may be smaller
    std::vector<std::size_t> made_from_it = {};
    std::int64_t from = -1;     ///< the tensor that it is made from
    bool frees_source = false;  ///< which nothing else needs then
  };

  static void add_makings(const Tensor& tensor, std::vector<Holding>& out) {
    const auto add = [&](costs::Making making, std::int32_t first, std::int32_t behind) {
      if (first >= behind) return;
      out.push_back(
          {tensor.kind, tensor.value, tensor.uses, tensor.use, true, making, tensor.frees_source, {first, behind}});
    };
    const std::int32_t made = tensor.made;
    if (!tensor.flight) {
      add(costs::Making::kAtOnce, made, made + 1);
      return;
    }
    const std::int32_t finish = std::max(tensor.flight->end, made);
    add(costs::Making::kStart, made, made + 1);
    add(costs::Making::kFlight, made + 1, finish);
    // What is made of a kept tensor of the forward has no flight, but the same usage.
    add(costs::Making::kFinish, finish, std::max(finish, tensor.read) + 1);
  }

  /// In flight from `made` on, a tensor is needed until it has come; what is made from it may stand before it.
  void fly(Tensor& tensor) const {
    tensor.flight = times_.flight(tensor.uses);
    if (!tensor.flight) return;
    const bool is_behind_kept = tensor.kind != Holding::Kind::kKept && may_be_kept_[ix(tensor.uses)] != 0;
    if (is_behind_kept && uses_[ix(tensor.uses)].phase == Phase::kForward) tensor.read = tensor.made;
    tensor.made = tensor.flight->start;
    tensor.last = std::max(tensor.last, tensor.flight->end);
  }

  std::size_t add(Tensor tensor, std::int64_t from) {
    if (from >= 0) tensor.made = std::max(tensor.made, tensors_[static_cast<std::size_t>(from)].made);
    tensor.last = std::max(tensor.last, tensor.made);
    const std::size_t index = tensors_.size();
    tensor.from = from;
    if (from >= 0) tensors_[static_cast<std::size_t>(from)].made_from_it.push_back(index);
    tensors_.push_back(std::move(tensor));
    return index;
  }

  void add_readers(std::size_t tensor, ValueRef value) {
    const auto found = groups_.find({value.node, value.output});
    if (found == groups_.end()) return;
    const std::int32_t forward = found->second.forward;
    if (forward >= 0 && may_be_kept_[ix(forward)] != 0) {
      const std::int32_t first = first_read(times_, uses_[ix(forward)]);
      Tensor kept{Holding::Kind::kKept, value, forward, -1, first, first};
      fly(kept);
      tensor = add(std::move(kept), static_cast<std::int64_t>(tensor));
    }
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
      from = static_cast<std::int64_t>(add({Holding::Kind::kSaved, value, group, -1, made, made}, from));
    }
    if (uses.uses.size() > 1) {
      Tensor copy{Holding::Kind::kCopy, value, group, -1, first, first};
      fly(copy);
      from = static_cast<std::int64_t>(add(std::move(copy), from));
    }
    for (std::size_t u = 0; u < uses.uses.size(); ++u) {
      const Redistribution::Use& use = uses.uses[u];
      Tensor reading{Holding::Kind::kRead, value, group, static_cast<std::int32_t>(u), times_.read(value, use),
                     times_.needed(use)};
      if (uses.uses.size() == 1) fly(reading);
      const std::size_t read = add(std::move(reading), from);
      if (!times_.is_view(use)) continue;
      const Node& view = times_.node(use.node);
      for (std::size_t o = 0; o < view.outputs.size(); ++o) {
        if (!view.outputs[o]) continue;
        if (view.outputs[o]->numel() != times_.graph().meta(value).numel()) tensors_[read].has_its_size = false;
        add_readers(read, {use.node, static_cast<std::int32_t>(o)});
      }
    }
  }

  /// Finds which redistributions are the last that need what they start from: what they hold of it while they run is
  /// counted with their buffers. The others have it beside them.
  void free_sources() {
    for (std::size_t i = 1; i < tensors_.size(); ++i) {
      tensors_[i].frees_source = is_all_of_its_source(i) && !is_needed_beside(i);
    }
    for (const Tensor& tensor : tensors_) {
      if (tensor.from < 0 || (tensor.kind == Holding::Kind::kSaved && may_be_missing_)) continue;
      Tensor& source = tensors_[static_cast<std::size_t>(tensor.from)];
      source.last = std::max(source.last, tensor.frees_source ? tensor.made - 1 : tensor.made);
    }
  }

  bool is_all_of_its_source(std::size_t index) const {
    for (std::int64_t at = tensors_[index].from; at >= 0; at = tensors_[static_cast<std::size_t>(at)].from) {
      if (!tensors_[static_cast<std::size_t>(at)].has_its_size) return false;
    }
    return true;
  }

  /// Whether the storage is needed when the tensor is made, or later, for others than it and those made from it.
  bool is_needed_beside(std::size_t index) const {
    std::vector<char> is_behind(tensors_.size(), 0);
    is_behind[index] = 1;
    const std::int32_t made = tensors_[index].made;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& tensor = tensors_[i];
      if (tensor.from >= 0 && is_behind[static_cast<std::size_t>(tensor.from)] != 0) is_behind[i] = 1;
      if (is_behind[i] == 0 &&
          (tensor.last >= made || (tensor.from >= 0 && tensor.made >= made && !is_above(i, index))))
        return true;
    }
    return false;
  }

  /// Whether `index` is made from `above`, directly or not.
  bool is_above(std::size_t above, std::size_t index) const {
    auto at = static_cast<std::int64_t>(index);
    while (at > static_cast<std::int64_t>(above)) at = tensors_[static_cast<std::size_t>(at)].from;
    return at == static_cast<std::int64_t>(above);
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
        out.push_back({tensor.kind, tensor.value, tensor.uses, tensor.use, is_counted, {}, false, now_});
      }
      is_counted = true;
    }
    for (const std::size_t other : tensor.made_from_it) count(other, is_counted, out);
  }

  const Times& times_;
  const std::vector<PhaseUses>& uses_;
  const std::vector<char>& is_saved_;
  const std::vector<char> may_be_kept_;
  const UsesOfValues& groups_;
  const bool may_be_missing_;
  std::vector<Tensor> tensors_;
  engine::Span now_;
  std::vector<int> needed_;
  std::vector<int> num_needing_;
  std::vector<std::int64_t> open_;  // per tensor, and whether counted: the holding that was found last
};

}  // namespace

Timeline Timeline::of(const Graph& graph) {
  Timeline timeline;
  timeline.first_time.assign(graph.nodes.size(), -1);
  for (const Node& node : graph.nodes) timeline.num_inputs.push_back(static_cast<std::int32_t>(node.inputs.size()));
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (graph.nodes[i].role != Role::kNone || graph.nodes[i].phase != phase) continue;
      timeline.first_time[i] = timeline.num_times();
      timeline.node_at.insert(timeline.node_at.end(), graph.nodes[i].inputs.size() + 2, static_cast<std::int32_t>(i));
    }
  }
  timeline.node_at.push_back(-1);
  return timeline;
}

std::vector<Holding> find_holdings(const Graph& graph, const Timeline& timeline, const std::vector<PhaseUses>& uses,
                                   const std::vector<char>& is_saved, const Windows* windows, bool may_be_missing) {
  const UsesOfValues groups = uses_of_values(uses);
  const Times times(graph, timeline, windows);
  Tree tree(times, uses, is_saved, groups, may_be_missing);
  std::vector<Holding> holdings;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (costs::is_view(graph.nodes[i].op)) continue;
    const auto node = static_cast<std::int32_t>(i);
    if (costs::may_need_workspace(graph.nodes[i])) {
      const std::int32_t run = timeline.run_time(node);
      holdings.push_back({Holding::Kind::kWorkspace, {node, 0}, -1, -1, false, {}, false, {run, run + 1}});
    }
    for (std::size_t o = 0; o < graph.nodes[i].outputs.size(); ++o) {
      if (!graph.nodes[i].outputs[o]) continue;
      tree.collect({node, static_cast<std::int32_t>(o)}, holdings);
    }
  }
  return holdings;
}

std::vector<engine::Span> saved_spans(const Graph& graph, const Timeline& timeline,
                                      const std::vector<PhaseUses>& uses) {
  const UsesOfValues groups = uses_of_values(uses);
  const Times times(graph, timeline, nullptr);
  std::vector<engine::Span> spans(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Node& producer = graph.nodes[ix(uses[i].value.node)];
    if (uses[i].phase != Phase::kBackward || producer.role != Role::kNone || producer.phase != Phase::kForward)
      continue;
    const UsesOfValue& own = groups.at({uses[i].value.node, uses[i].value.output});
    const std::int32_t made = saved_time(times, uses[i].value, uses, own.forward);
    const std::int32_t read = first_read(times, uses[i]);
    if (made + 1 < read) spans[i] = {made, read + 1};
  }
  return spans;
}

}  // namespace autopar::partition
