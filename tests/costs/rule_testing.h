#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "costs/graph.h"
#include "costs/rules/rule.h"
#include "costs/strategy.h"

/// Hand-made nodes for the tests of the sharding rules, and their strategies as text.
namespace autopar::costs::testing {

inline TensorMeta tensor(std::vector<std::int64_t> shape, DType dtype = DType::kFloat32) {
  std::vector<std::int64_t> stride(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) stride[i - 1] = stride[i] * shape[i];
  return {std::move(shape), std::move(stride), dtype};
}

inline Arg literal(std::int64_t value) { return Arg{value}; }
inline Arg literal(double value) { return Arg{value}; }
inline Arg none() { return Arg{Arg::None{}}; }
inline Arg ints(const std::vector<std::int64_t>& values) {
  Arg::List list;
  for (std::int64_t value : values) list.push_back(literal(value));
  return Arg{list};
}

/// A graph of one op and its inputs.
class OneOp {
 public:
  explicit OneOp(std::string op) { node_.op = std::move(op); }

  OneOp& arg(Arg value) {
    node_.args.push_back(std::move(value));
    return *this;
  }
  OneOp& arg(const TensorMeta& meta) { return arg(input(meta)); }
  OneOp& args(const std::vector<TensorMeta>& metas) {
    Arg::List list;
    for (const TensorMeta& meta : metas) list.push_back(input(meta));
    return arg(Arg{list});
  }
  OneOp& kwarg(const std::string& name, Arg value) {
    node_.kwargs.emplace_back(name, std::move(value));
    return *this;
  }
  OneOp& output(const TensorMeta& meta) {
    node_.outputs.emplace_back(meta);
    return *this;
  }

  OneOp& no_output() {
    node_.outputs.emplace_back();
    return *this;
  }

  /// A tensor to put into a list or keyword argument.
  Arg input(const TensorMeta& meta) {
    Node placeholder;
    placeholder.op = "placeholder";
    placeholder.outputs.emplace_back(meta);
    graph_.nodes.push_back(placeholder);
    return Arg{ValueRef{static_cast<std::int32_t>(graph_.nodes.size() - 1), 0}};
  }

  /// What the op's rule lists, such as "S(0),R -> S(0)"; an even shard is "S(0)=", one of 4 units "S(0)=4". A local
  /// program stands behind: "S(0),R -> P(sum) [embedding_masked]".
  std::vector<std::string> strategies() {
    std::vector<std::string> texts;
    for (const OneDimStrategy& strategy : list()) texts.push_back(text(strategy));
    return texts;
  }

  /// The same as data; throws if the op has no rule.
  std::vector<OneDimStrategy> list() {
    collect_inputs(node_);
    const Rule rule = find_rule(node_.op);
    if (rule == nullptr) throw std::runtime_error("no rule for " + node_.op);
    return rule(graph_, node_);
  }

  /// The strategies on a whole mesh, as "S(0)R,RR -> S(0)R".
  std::vector<std::string> on_mesh(const std::vector<std::int64_t>& shape) {
    Mesh mesh{shape, std::vector<std::string>(shape.size(), "d")};
    std::vector<std::string> texts;
    for (const Strategy& strategy : combine(graph_, node_, list(), mesh)) {
      const auto joined = [&](const std::vector<Placements>& tensors) {
        std::string line;
        for (const Placements& placements : tensors) {
          if (!line.empty()) line += ",";
          for (int dim = 0; dim < mesh.rank(); ++dim) line += to_string(placements[dim]);
        }
        return line;
      };
      texts.push_back(joined(strategy.inputs) + " -> " + joined(strategy.outputs));
    }
    return texts;
  }

 private:
  static std::string text(const Split& split) {
    std::string out = to_string(split.placement);
    if (split.even) out += "=";
    if (split.units != 0) out += std::to_string(split.units);
    return out;
  }
  static std::string text(const std::vector<Split>& splits) {
    std::string out;
    for (const Split& split : splits) out += (out.empty() ? "" : ",") + text(split);
    return out;
  }
  static std::string text(const OneDimStrategy& strategy) {
    const std::string program = strategy.program.name.empty() ? "" : fmt::format(" [{}]", strategy.program.name);
    return text(strategy.inputs) + " -> " + text(strategy.outputs) + program;
  }

  Graph graph_;
  Node node_;
};

}  // namespace autopar::costs::testing
