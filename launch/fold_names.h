#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace autopar::launch {

/// Joins names that differ only in numbers between dots or slashes and have the same `facts`, as repeated layers have
/// them: layers.0.w, layers.1.w, … layers.31.w give "layers.0-31.w".
struct NamedFacts {
  std::string name;
  std::string facts;
};

/// A name that stands for several.
struct FoldedName {
  std::string name;
  std::string facts;
  std::vector<std::size_t> members;  ///< indices into what was folded
};

/// In the order of first appearance. A set of numbers that is not a full grid is not joined over more than its first
/// number, so that a folded name stands for exactly the names given.
std::vector<FoldedName> fold_names(const std::vector<NamedFacts>& items);

/// The names that a folded name stands for: "layers.0-2.w" gives three. A name without ranges stands for itself.
std::vector<std::string> unfold_name(const std::string& name);

}  // namespace autopar::launch
