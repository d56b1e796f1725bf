#include <string_view>
#include <unordered_map>
#include <vector>

#include "costs/rules/rule.h"

namespace autopar::costs {
namespace {

using RuleTable = std::unordered_map<std::string_view, Rule>;

RuleTable all_rules() {
  RuleTable table;
  for (const auto& family :
       {attention_rules(), convolution_rules(), creation_rules(), embedding_rules(), indexing_rules(), loss_rules(),
        matmul_rules(), normalization_rules(), pointwise_rules(), random_rules(), reduction_rules(), scan_rules(),
        sort_rules(), structural_rules(), view_rules()}) {
    for (const RuleEntry& entry : family) table.emplace(entry.op, entry.rule);
  }
  return table;
}

}  // namespace

Rule find_rule(std::string_view op) {
  static const RuleTable table = all_rules();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

OneDimStrategy replicated(const Node& node) {
  return {std::vector<Split>(node.inputs.size()), std::vector<Split>(node.outputs.size())};
}

}  // namespace autopar::costs
