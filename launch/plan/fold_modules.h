#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launch/fold_names.h"
#include "launch/plan/module_facts.h"

namespace autopar::launch {

/// Modules of equal facts whose paths differ in numbers only.
template <class Facts>
struct FoldedModules {
  std::string name;
  Facts facts;  ///< of the first, from which the others differ in the path only
  std::vector<std::string> paths;
};

/// `Facts` have a path; `text_of`: all else that they say.
template <class Facts, class TextOf>
std::vector<FoldedModules<Facts>> fold_modules(const std::vector<Facts>& modules, const TextOf& text_of) {
  std::vector<NamedFacts> items;
  for (const Facts& module : modules) items.push_back({module_name(module.path), text_of(module)});
  std::vector<FoldedModules<Facts>> folded;
  for (const FoldedName& group : fold_names(items)) {
    FoldedModules<Facts>& one =
        folded.emplace_back(FoldedModules<Facts>{group.name, modules[group.members.front()], {}});
    for (const std::size_t member : group.members) one.paths.push_back(modules[member].path);
  }
  return folded;
}

}  // namespace autopar::launch
