#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costs/graph.h"
#include "partition/problem.h"

/// Recomputation (activation checkpointing: Chen et al. 2016; Korthikanti et al. 2022): forward nodes that run again in
/// the backward pass, so that what they give need not be kept until then.
namespace autopar::partition {

/// Behind the key of a node that runs again.
inline constexpr const char* kAgain = "/again";

/// Per node, whether it may run again: a forward op that gives the same again (it draws no random numbers, is no region
/// of the user's), and whose outputs stay inside its segment. What passes from one layer to the next is kept, so that
/// each layer can be made again by itself, in its own backward.
std::vector<char> repeatable_nodes(const costs::Graph& graph);

/// A problem whose graph has some nodes twice.
struct RepeatedProblem {
  Problem problem;
  std::vector<std::int32_t> index_of;  ///< per node of the original graph: its index
  std::vector<std::int32_t> again_of;  ///< and that of the node that runs it again; -1: there is none
  std::vector<char> is_optional;       ///< per node: it is such a node
};

/// `problem` with a node that runs again, before its first reader in the backward, for each node in `which` that the
/// backward reads of, directly or for others that run again. Views between them run again too. The same as
/// io/pytorch/autopar/again.py does. With `reads_again` the backward reads what these nodes give, else what the first
/// runs gave: then each is an offer, that nothing reads.
RepeatedProblem with_repeated(const Problem& problem, const std::vector<char>& which, bool reads_again);

}  // namespace autopar::partition
