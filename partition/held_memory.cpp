#include "partition/held_memory.h"

#include <algorithm>
#include <cstddef>

#include "costs/local_program.h"
#include "costs/memory.h"
#include "engine/index.h"

namespace autopar::partition {
namespace {

using costs::Placements;

using engine::ix;

/// What a plan's tensors take.
class Sizes {
 public:
  Sizes(const Problem& problem, const Plan& plan, const std::vector<PhaseUses>& uses)
      : problem_(problem), plan_(plan), uses_(uses) {}

  std::int64_t bytes(const Holding& holding) const {
    if (holding.kind == Holding::Kind::kWorkspace) return workspace(holding.value.node);
    if (holding.only_if_moved && placements(holding) == source(holding)) return 0;
    const costs::TensorMeta& tensor = problem_.graph.meta(holding.value);
    if (holding.making) return making(holding, tensor);
    const bool is_parameter = problem_.graph.nodes[ix(holding.value.node)].role == costs::Role::kParameter;
    if (holding.kind == Holding::Kind::kValue && is_parameter) {
      return costs::parameter_bytes(tensor, placements(holding), problem_.mesh, problem_.pins.optimizer);
    }
    return costs::local_bytes(tensor, placements(holding), problem_.mesh);
  }

 private:
  std::int64_t workspace(std::int32_t node) const {
    const NodeChoice& choice = plan_.nodes[ix(node)];
    const costs::Strategy strategy{choice.inputs, choice.outputs, {}, choice.programs};
    return costs::workspace_bytes(problem_.graph, problem_.graph.nodes[ix(node)], strategy, problem_.mesh);
  }

  const Placements& given(const Holding& holding) const {
    return plan_.nodes[ix(holding.value.node)].outputs[ix(holding.value.output)];
  }

  /// What both phases start from.
  const Placements& kept(const Holding& holding) const {
    const auto& kept = plan_.kept[ix(holding.uses)];
    return kept ? *kept : given(holding);
  }

  /// What the phase starts from.
  const Placements& there(const Holding& holding) const {
    const auto& saved = plan_.saved[ix(holding.uses)];
    return saved ? *saved : kept(holding);
  }

  const Placements& placements(const Holding& holding) const {
    switch (holding.kind) {
      case Holding::Kind::kValue:
        return given(holding);
      case Holding::Kind::kKept:
        return kept(holding);
      case Holding::Kind::kSaved:
        return there(holding);
      case Holding::Kind::kCopy:
        return plan_.copies[ix(holding.uses)];
      case Holding::Kind::kRead:
      case Holding::Kind::kWorkspace:
        break;
    }
    const Redistribution::Use& use = uses_[ix(holding.uses)].uses[ix(holding.use)];
    return use.input >= 0 ? plan_.nodes[ix(use.node)].inputs[ix(use.input)] : plan_.outputs[ix(use.node)];
  }

  /// The placements of the tensor that this one is made from.
  const Placements& source(const Holding& holding) const {
    if (holding.kind == Holding::Kind::kKept) return given(holding);
    if (holding.kind == Holding::Kind::kSaved) return kept(holding);
    if (holding.kind == Holding::Kind::kCopy) return there(holding);
    return uses_[ix(holding.uses)].uses.size() > 1 ? plan_.copies[ix(holding.uses)] : there(holding);
  }

  std::int64_t making(const Holding& holding, const costs::TensorMeta& tensor) const {
    const auto is_this = [&](const Redistribution& redistribution) {
      return redistribution.value == holding.value && redistribution.from == source(holding) &&
             redistribution.to == placements(holding);
    };
    const auto found =
        std::lower_bound(plan_.redistributions.begin(), plan_.redistributions.end(), holding.value,
                         [](const Redistribution& one, costs::ValueRef value) {
                           return std::pair(one.value.node, one.value.output) < std::pair(value.node, value.output);
                         });
    const auto entry = std::find_if(found, plan_.redistributions.end(), is_this);
    if (entry == plan_.redistributions.end()) return 0;
    // What the forward makes of a kept tensor has no flight.
    const bool is_at_once = holding.kind != Holding::Kind::kKept &&
                            uses_[ix(holding.uses)].phase == costs::Phase::kForward &&
                            kept(holding) != given(holding) && source(holding) == kept(holding);
    return costs::making_bytes(tensor, entry->steps, problem_.mesh, holding.frees_source,
                               is_at_once ? costs::Making::kAtOnce : *holding.making);
  }

  const Problem& problem_;
  const Plan& plan_;
  const std::vector<PhaseUses>& uses_;
};

bool is_gradient(const costs::Graph& graph, costs::ValueRef value) {
  return std::any_of(graph.outputs.begin(), graph.outputs.end(), [&](const costs::GraphOutput& output) {
    return output.role == costs::OutputRole::kGradient && output.value == value;
  });
}

}  // namespace

std::vector<HeldTensor> HeldMemory::held_at(std::int32_t time) const {
  std::vector<HeldTensor> held;
  for (const HeldTensor& tensor : tensors) {
    if (tensor.holding.span.start <= time && time < tensor.holding.span.end) held.push_back(tensor);
  }
  std::stable_sort(held.begin(), held.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return held;
}

HeldMemory held_memory(const Problem& problem, const Plan& plan) {
  const Timeline timeline = Timeline::of(problem.graph);
  const std::vector<PhaseUses> uses = collect_uses(problem.graph);
  std::vector<char> is_saved;
  for (const auto& saved : plan.saved) is_saved.push_back(saved ? 1 : 0);
  const Sizes sizes(problem, plan, uses);
  const std::optional<Windows> windows = find_windows(problem, uses);
  HeldMemory memory;
  std::vector<std::int64_t> changes(ix(timeline.num_times()) + 1, 0);
  for (const Holding& holding : find_holdings(problem.graph, timeline, uses, is_saved, windows ? &*windows : nullptr)) {
    const std::int64_t bytes = sizes.bytes(holding);
    if (bytes == 0) continue;
    memory.tensors.push_back({holding, bytes});
    changes[ix(holding.span.start)] += bytes;
    changes[ix(holding.span.end)] -= bytes;
  }
  std::int64_t now = 0;
  for (std::int32_t time = 0; time < timeline.num_times(); ++time) {
    now += changes[ix(time)];
    memory.bytes.push_back(now);
    if (now > memory.peak_bytes()) memory.peak_time = time;
  }
  return memory;
}

std::string_view memory_kind_name(MemoryKind kind) {
  constexpr std::array<std::string_view, kNumMemoryKinds> kNames = {"parameters", "optimizer", "gradients",
                                                                    "inputs",     "saved",     "temporary"};
  return kNames[static_cast<std::size_t>(kind)];
}

MemoryKind memory_kind(const Problem& problem, const Timeline& timeline, const HeldTensor& tensor, std::int32_t time) {
  const Holding& holding = tensor.holding;
  const costs::Node& producer = problem.graph.nodes[ix(holding.value.node)];
  if (holding.making || holding.kind == Holding::Kind::kWorkspace) return MemoryKind::kTemporary;
  if (holding.kind == Holding::Kind::kValue && producer.role != costs::Role::kNone) {
    return producer.role == costs::Role::kParameter ? MemoryKind::kParameters : MemoryKind::kInputs;
  }
  if (is_gradient(problem.graph, holding.value)) return MemoryKind::kGradients;
  const std::int32_t running = timeline.node_of(time);
  const bool is_in_backward = running < 0 || problem.graph.nodes[ix(running)].phase == costs::Phase::kBackward;
  const bool is_of_forward = producer.role == costs::Role::kNone && producer.phase == costs::Phase::kForward;
  const bool is_saved = holding.kind == Holding::Kind::kSaved || (is_of_forward && is_in_backward);
  return is_saved ? MemoryKind::kSaved : MemoryKind::kTemporary;
}

PlanMemory plan_memory(const Problem& problem, const Plan& plan, const HeldMemory& memory) {
  const Timeline timeline = Timeline::of(problem.graph);
  PlanMemory result;
  for (std::size_t i = 0; i < problem.graph.nodes.size(); ++i) {
    const auto node = static_cast<std::int32_t>(i);
    std::int64_t most = 0;
    if (problem.graph.nodes[i].role == costs::Role::kNone) {
      for (std::int32_t time = timeline.first_time[i]; time <= timeline.give_time(node); ++time) {
        most = std::max(most, memory.bytes[ix(time)]);
      }
    }
    result.node_bytes.push_back(most);
  }
  result.peak_bytes = memory.peak_bytes();
  result.peak_node = timeline.node_of(memory.peak_time);
  for (const HeldTensor& tensor : memory.held_at(memory.peak_time)) {
    const MemoryKind kind = memory_kind(problem, timeline, tensor, memory.peak_time);
    std::int64_t bytes = tensor.bytes;
    if (kind == MemoryKind::kParameters) {
      const costs::ValueRef value = tensor.holding.value;
      bytes = costs::local_bytes(problem.graph.meta(value), plan.nodes[ix(value.node)].outputs[0], problem.mesh);
      result.peak_parts[static_cast<std::size_t>(MemoryKind::kOptimizer)] += tensor.bytes - bytes;
    }
    result.peak_parts[static_cast<std::size_t>(kind)] += bytes;
  }
  return result;
}

}  // namespace autopar::partition
