#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/written_plan.h"

namespace autopar::launch {

/// What a plan does with one module of the model, read from the plan alone: a node's module is its key up to the first
/// slash, a parameter's its name up to the last dot.
struct ModuleFacts {
  std::string path;                     ///< "": the top
  std::vector<std::string> parameters;  ///< its own: "weight bf16[4096,4096]"
  std::vector<std::string> words;       ///< per mesh dim: "S(0) at rest, gathered; split over tokens"
  int num_again = 0;                    ///< of its nodes, those that run again in the backward
};

/// All modules with nodes or parameters, in the order in which they run.
std::vector<ModuleFacts> module_facts(const partition::WrittenPlan& plan);

/// The path as a person reads it.
std::string module_name(const std::string& path);

/// "layers.0.mlp.w1" of the node "layers.0.mlp.w1/f/mm".
std::string module_of_node(const std::string& key);
/// "layers.0.mlp.w1" of the parameter "layers.0.mlp.w1.weight".
std::string module_of_parameter(const std::string& name);

/// "bf16[16,8]" of the plan's "bfloat16[16,8]".
std::string short_tensor(const std::string& tensor);

}  // namespace autopar::launch
