#pragma once

#include <string>
#include <vector>

#include "launch/task.h"

namespace autopar::launch {

/// Pins as a person writes them: PATTERN: PLACEMENTS, where the placements are a constraints file's
/// (docs/constraints.md) and the pattern is a name or glob of parameters, inputs, outputs or nodes, or of modules: then
/// of all parameters that are theirs. Names can be folded as `autopar-plan show` does.
struct PinArguments {
  std::vector<std::string> pins;  ///< "layers.*.mlp.w1: {tp: Shard(0)}"
  std::string file;               ///< .yaml or .json: a map of such pins, or a constraints file; empty: none
  bool empty() const { return pins.empty() && file.empty(); }
};

/// A constraints file's text that says the same, for the graph of `task`, and what messages call it.
struct PinConstraints {
  std::string name;
  std::string text;
};

/// Throws io::InputError for what cannot be read, and names that the model does not have.
PinConstraints read_pins(const PinArguments& arguments, const Task& task);

}  // namespace autopar::launch
