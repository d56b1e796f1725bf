#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costs/dtype.h"
#include "costs/graph.h"
#include "costs/local_program.h"
#include "costs/mesh.h"
#include "costs/placement.h"
#include "costs/redistribute.h"
#include "partition/plan.h"

namespace autopar::partition {

/// A plan as plan.json states it (docs/plan-json.md): enough to show, compare or time it without the model. Indices are
/// those of its own lists.
struct WrittenPlan {
  struct Node {
    std::string key;
    std::string op;
    std::optional<costs::Phase> phase;  ///< none: a graph input
    std::vector<costs::Placements> inputs;
    std::vector<costs::ValueRef> reads;  ///< what is read, per entry of `inputs`; empty: the file does not say
    std::vector<std::optional<costs::Placements>> outputs;  ///< none: None, as below
    std::vector<std::optional<std::string>> tensors;        ///< "bfloat16[16,8192]"
    std::int64_t compute_ps = 0;
    std::vector<std::string> programs;  ///< by mesh dim; empty: all are the plain op
    std::vector<costs::ProgramAllReduce> all_reduces;
  };

  struct Step {
    costs::RedistributeStep::Kind kind = costs::RedistributeStep::Kind::kSlice;
    std::uint32_t mesh_dims = 0;  ///< bit i: mesh dim i
    costs::Placements to;
    std::int64_t bytes = 0;
    std::int64_t time_ps = 0;
    std::int64_t startup_ps = 0;  ///< what the collective takes with no bytes; known only of overlapped ones
  };

  struct Redistribution {
    costs::ValueRef value;
    costs::Phase phase = costs::Phase::kForward;
    costs::Placements from;
    costs::Placements to;
    costs::DType dtype = costs::DType::kFloat32;
    std::vector<Step> steps;
    std::vector<partition::Redistribution::Use> uses;
    bool is_saved = false;
    std::int64_t pipelined_ps = 0;  ///< of its time, what hides in the matmuls beside it
    std::int32_t source = -1;  ///< the earlier entry whose result this one starts from; -1: the value as it is given
    std::int32_t start = -1;   ///< node at whose turn it is started; -1: it runs where its result is first read
    std::int32_t finish = -1;  ///< and at whose turn it is waited for at the latest; -1: at the end of its phase
  };

  struct Output {
    costs::ValueRef value;
    costs::OutputRole role = costs::OutputRole::kOutput;
    std::int32_t of = -1;  ///< the graph input that a gradient or mutation belongs to
    costs::Placements placements;
  };

  std::string model_name;
  std::string graph_hash;
  std::string model_hash;  ///< content hashes of the files that the plan was made from
  std::string cluster_name;
  std::string cluster_hash;
  std::optional<std::string> constraints_hash;  ///< none: there was no such file
  bool has_overlap = true;                      ///< communication may hide behind compute
  costs::Mesh mesh;
  std::string status;  ///< "optimal", "not_proven", "limit_reached", "random"
  std::int64_t cost_ps = 0;
  std::int64_t bound_ps = 0;
  std::int64_t compute_ps = 0;
  std::int64_t communication_ps = 0;
  std::int64_t parameter_bytes = 0;
  std::int64_t memory_limit_bytes = 0;
  PlanMemory memory;
  std::vector<std::pair<std::string, costs::Placements>> parameters;
  std::vector<std::string> recomputed;
  std::vector<Node> nodes;  ///< the nodes of a phase run in this order
  std::vector<Redistribution> redistributions;
  std::vector<Output> outputs;
};

}  // namespace autopar::partition
