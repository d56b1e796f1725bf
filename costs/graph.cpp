#include "costs/graph.h"

namespace autopar::costs {
namespace {

void append_tensors(const Arg& arg, std::vector<ValueRef>& out) {
  if (const ValueRef* ref = arg.as_tensor()) {
    out.push_back(*ref);
  } else if (const Arg::List* list = arg.as_list()) {
    for (const Arg& item : *list) append_tensors(item, out);
  }
}

}  // namespace

void collect_inputs(Node& node) {
  node.inputs.clear();
  for (const Arg& arg : node.args) append_tensors(arg, node.inputs);
  for (const auto& [name, arg] : node.kwargs) append_tensors(arg, node.inputs);
}

}  // namespace autopar::costs
