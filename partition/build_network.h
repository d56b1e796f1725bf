#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "costs/redistribute.h"
#include "engine/cost_network.h"
#include "partition/plan.h"
#include "partition/problem.h"

namespace autopar::partition {

/// The cost network of a model (costs in ps) and what its variables stand for.
///
/// Variables: one per node (graph inputs included), whose values are the node's strategies and cost its compute time;
/// one *copy* per value and phase (forward, backward) with several readers there; one *kept* per value that is there
/// from the start (a parameter, or a cast of it) and read in both phases; one per graph output that is not a gradient
/// or mutation.
///
/// Edges: redistribution times between the placements at their ends. A value with one reader in a phase has an edge
/// producer -> reader. One with several has an edge producer -> copy, and an edge copy -> reader for each: the copy's
/// state is a placement that the producer gives or a reader wants, made once; all readers read the copy, so those that
/// want its placement share one redistribution, and the others go on from it. Limits of this: what two readers make of
/// the copy is priced for each, also if it is the same; and a copy lives within one phase.
///
/// A value read in both phases is redistributed in each from what the producer gave, or what is saved of that. A kept
/// variable stands between producer and phases: its states are what the producer gives, and, marked (kept() in
/// choices.h), what one redistribution makes of that in the forward for both. So a gathered parameter is freed behind
/// the forward and gathered again (FSDP with resharding after forward), or kept for the backward (without; ZeRO-2).
/// Limit: what the forward makes of a kept tensor is waited for, as it was not there before.
///
/// A gradient goes to its parameter's placement, a mutation to its buffer's: both end at that graph input's variable,
/// so that parameter, gradient and optimizer state share placements. The loss and other outputs are handed out in any
/// placement without Partial (on which a user's pin overrules), so a scalar is replicated.
///
/// Memory is looked at where it is asked for, at some time points (partition/holdings.h): there each variable uses the
/// bytes of the tensors that its choice places, of at most Pins::memory_limit_bytes. What is there only if it is moved,
/// and the buffers of its redistribution, are the usage of a *link*: a variable over the pairs of placements between
/// two others, in place of their edge. Where a value is held only to be saved for the backward, a *saved* variable
/// chooses how: more pieces take less memory, and are gathered in the backward.
///
/// A plan within the limit at all time points is as good as the network's optimum, which looks at some.
struct ModelNetwork {
  engine::CostNetwork network;
  /// Ops without a rule, in order of first appearance: their nodes are replicated.
  std::vector<std::string> unknown_ops;

  struct Impl;
  std::shared_ptr<const Impl> impl;  ///< strategies and copies behind the variables; make_plan needs it
};

struct BuildOptions {
  std::vector<std::int32_t> time_points = {};  ///< where memory counts, ascending
  /// Per node: it need not run. Then what it would give is there for the backward in another way, or not needed.
  std::vector<char> is_optional = {};
  std::vector<std::int32_t> again = {};  ///< per node: the optional one that makes its outputs again; -1: none
};

/// Prices every choice of `problem`, in parallel (TBB); the result does not depend on the number of threads. Equal
/// nodes are priced once, and variables stand segment by segment in the order of the joint graph, so identical layers
/// are identical in the network. Throws PinError if a pin leaves a node or output without a
/// choice.
ModelNetwork build_network(const Problem& problem, const costs::Redistributor& redistributor,
                           const BuildOptions& options = {});

/// Of an optional node, whether `assignment` lets it run.
bool runs(const ModelNetwork& model, const engine::Assignment& assignment, std::int32_t node);

/// The plan that `assignment` stands for. A redistribution may start from what another one of the same value and phase
/// gives: then that one stands before it, and has no uses of its own if all its readers go on from it. Requires:
/// `assignment` is allowed. Throws std::logic_error if it is not, or if the plan's parts do not add up to its cost.
Plan make_plan(const Problem& problem, const costs::Redistributor& redistributor, const ModelNetwork& model,
               const engine::Assignment& assignment);

}  // namespace autopar::partition
