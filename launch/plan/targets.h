#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costs/graph.h"
#include "launch/task.h"

namespace autopar::launch {

/// Tensors of a model that a person speaks of as one: equal ones of repeated layers. Each is the first output of a
/// node (a graph input's only one).
struct Target {
  std::string name;  ///< folded: "layers.0-31.attn.wq.weight"
  std::string kind;  ///< "parameter", "input", "op"
  std::vector<std::int32_t> nodes;
};

/// What `name` means: a parameter, an input, a node's key, or a module (its own parameters, and what it computes with
/// them, or else its last op); each also as a glob or as a folded name of `autopar-plan show`. What differs in op or
/// shape is told apart. Throws io::InputError if it means nothing, with near names, or too much.
std::vector<Target> find_targets(const std::string& name, const Task& task);

/// Names of parameters, inputs, nodes and modules that `name` may have meant, of repeated layers one: "a, b, c".
std::string near_names(const std::string& name, const Task& task);

/// The indices of parameters whose name, or any further name of a tied one, `pattern` matches.
std::vector<std::int32_t> parameters_named(const std::string& pattern, const Task& task);

}  // namespace autopar::launch
