#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costs/graph.h"
#include "costs/local_program.h"
#include "costs/mesh.h"
#include "costs/redistribute.h"
#include "costs/strategy.h"
#include "engine/solve.h"

namespace autopar::partition {

/// From when to when a redistribution is under way while ops run: from the turn of one node to that of another, before
/// anything of these runs.
struct Flight {
  std::int32_t start = -1;   ///< a node; -1: it is waited for where its result is read
  std::int32_t finish = -1;  ///< a node; -1: when all nodes of the phase have run
  bool exists() const { return start >= 0; }
};

/// What was chosen for one node (graph inputs included).
struct NodeChoice {
  std::vector<costs::Placements> inputs;   ///< what the op gets, per Node::inputs
  std::vector<costs::Placements> outputs;  ///< what it gives
  std::int64_t compute_ps = 0;
  std::array<costs::LocalProgram, costs::kMaxMeshDims> programs{};  ///< per mesh dim
  std::vector<costs::ProgramAllReduce> all_reduces = {};            ///< those inside the programs, in order
};

/// One redistribution: value `value` goes from `from` to `to`. Consumers of a value in one phase that share a
/// redistributed copy appear as one entry with several uses.
struct Redistribution {
  /// A reader of the copy: input `input` of node `node`; or, with input = -1, the graph output with index `node`.
  struct Use {
    std::int32_t node = -1;
    std::int32_t input = -1;
  };
  costs::ValueRef value;
  costs::Phase phase = costs::Phase::kForward;
  costs::Placements from;
  costs::Placements to;
  std::vector<costs::RedistributeStep> steps;
  std::vector<Use> uses;
  /// `to` is what is kept of the value for the backward (phase is forward). If `uses` or other entries of the forward
  /// read it, it is made for the first of them; else behind the value's last use.
  bool is_saved = false;
  Flight flight = {};  ///< if it exists, its last collective is under way then; else it runs where it is needed
  std::int64_t pipelined_ps = 0;  ///< of its time, what hides in the matmuls that it runs beside (pipelines.h)
};

/// What memory is for.
enum class MemoryKind : std::uint8_t {
  kParameters,
  kOptimizer,  ///< its state, master weights included
  kGradients,
  kInputs,  ///< buffers and the batch
  kSaved,   ///< made in the forward, needed in the backward
  kTemporary,
};
inline constexpr std::size_t kNumMemoryKinds = 6;
/// "parameters", "optimizer", "gradients", "inputs", "saved", "temporary".
std::string_view memory_kind_name(MemoryKind kind);

/// The memory of one device over a training step.
struct PlanMemory {
  std::vector<std::int64_t> node_bytes;  ///< per Graph::nodes: the most while the node reads and runs; graph inputs: 0
  std::int64_t peak_bytes = 0;
  std::int32_t peak_node = -1;                                ///< where that is first; -1: when all nodes have run
  std::array<std::int64_t, kNumMemoryKinds> peak_parts = {};  ///< by MemoryKind
};

/// A complete plan with what it costs.
struct Plan {
  costs::Mesh mesh;
  std::vector<NodeChoice> nodes;           ///< per Graph::nodes
  std::vector<costs::Placements> outputs;  ///< per Graph::outputs: what is handed out
  std::vector<Redistribution>
      redistributions;  ///< in the order of the value's node, then reading phase, then first use
  /// Per entry of collect_uses: the placements of the copy that all readers share (those that the value is given in, if
  /// there is none), of what is saved (if the search looked at that), and, of values for which that is a choice, of
  /// what both phases start from: given, or made in the forward and kept.
  std::vector<costs::Placements> copies;
  std::vector<std::optional<costs::Placements>> saved;
  std::vector<std::optional<costs::Placements>> kept;
  std::vector<std::string> recomputed;  ///< keys of forward nodes that run again in the backward
  std::int64_t cost_ps = 0;             ///< the step: compute and the communication that does not hide behind it
  std::int64_t compute_ps = 0;
  std::int64_t communication_ps = 0;
  PlanMemory memory;
  std::int64_t parameter_bytes = 0;  ///< parameters + gradients + optimizer state on one device
  std::int64_t memory_limit_bytes = 0;
};

}  // namespace autopar::partition
