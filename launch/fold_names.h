#pragma once

#include <string>
#include <vector>

namespace autopar::launch {

/// Joins names that differ only in numbers between dots or slashes and have the same `facts`, as repeated layers have
/// them: layers.0.w, layers.1.w, … layers.31.w give "layers.0-31.w".
struct NamedFacts {
  std::string name;
  std::string facts;
};

/// In the order of first appearance. A set of numbers that is not a full grid is not joined over more than its first
/// number, so that a folded name stands for exactly the names given.
std::vector<NamedFacts> fold_names(const std::vector<NamedFacts>& items);

}  // namespace autopar::launch
