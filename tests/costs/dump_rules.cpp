#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "costs/rules/rule.h"
#include "io/read_model.h"

/// Prints the one-mesh-dim strategies of every node of a model, for the tests that run them: one JSON object a line,
/// {"key": …, "strategies": [[inputs, outputs, name of the local program], …]}; a split is [placement, units, even]. No
/// rule: "strategies" is null.
namespace autopar::costs {
namespace {

std::string text(const std::vector<Split>& splits) {
  std::vector<std::string> items;
  for (const Split& split : splits) {
    items.push_back(fmt::format(R"(["{}", {}, {}])", to_string(split.placement), split.units, split.even));
  }
  return fmt::format("[{}]", fmt::join(items, ", "));
}

void print_rules(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (node.role != Role::kNone) continue;
    std::string strategies = "null";
    if (const Rule rule = find_rule(node.op)) {
      std::vector<std::string> items;
      for (const OneDimStrategy& strategy : rule(graph, node)) {
        items.push_back(
            fmt::format(R"([{}, {}, "{}"])", text(strategy.inputs), text(strategy.outputs), strategy.program.name));
      }
      strategies = fmt::format("[{}]", fmt::join(items, ", "));
    }
    fmt::print("{{\"key\": \"{}\", \"strategies\": {}}}\n", node.key, strategies);
  }
}

}  // namespace
}  // namespace autopar::costs

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::runtime_error("usage: dump_rules MODEL");
    autopar::costs::print_rules(autopar::io::read_model(argv[1]).graph_file.graph);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "dump_rules: {}\n", error.what());
    return 1;
  }
}
