#pragma once

#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "costs/graph.h"
#include "costs/strategy.h"

/// Sharding rules: for every ATen op, the valid one-mesh-dim strategies. One file per op family; a new op is a row in
/// its family's table, a new family is a file and a row in registry.cpp.
namespace autopar::costs {

/// A node whose arguments or tensors do not fit its op: the model is wrong. what() names the node and says why.
class NodeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Lists the one-mesh-dim strategies of `node`, the all-replicated one first, without duplicates. Rules look at global
/// shapes and literals only, never at the mesh: combine() drops what does not fit one. Throws NodeError.
using Rule = std::vector<OneDimStrategy> (*)(const Graph& graph, const Node& node);

struct RuleEntry {
  std::string_view op;  ///< ATen overload
  Rule rule;
};

/// The rule of an op; nullptr if there is none (then only replicated() is known to be right).
Rule find_rule(std::string_view op);

/// All inputs and outputs replicated: valid for every op.
OneDimStrategy replicated(const Node& node);

/// Whether `node` draws random numbers, so that running it again gives something else.
bool draws_random_numbers(const Node& node);
/// The part of it that is attention: with dropout.
bool attention_drops(const Node& node);

// The families, one per file.
std::span<const RuleEntry> attention_rules();
std::span<const RuleEntry> convolution_rules();
std::span<const RuleEntry> creation_rules();
std::span<const RuleEntry> embedding_rules();
std::span<const RuleEntry> indexing_rules();
std::span<const RuleEntry> loss_rules();
std::span<const RuleEntry> matmul_rules();
std::span<const RuleEntry> normalization_rules();
std::span<const RuleEntry> pointwise_rules();
std::span<const RuleEntry> random_rules();
std::span<const RuleEntry> reduction_rules();
std::span<const RuleEntry> scan_rules();
std::span<const RuleEntry> sort_rules();
std::span<const RuleEntry> structural_rules();
std::span<const RuleEntry> view_rules();

}  // namespace autopar::costs
