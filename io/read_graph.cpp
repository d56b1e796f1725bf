#include "io/read_graph.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "costs/rules/helpers.h"
#include "io/choices.h"

namespace autopar::io {
namespace {

using costs::Arg;
using costs::Node;
using costs::TensorMeta;
using costs::ValueRef;

constexpr Choices<costs::Role, 6> kRoles = {{
    {"parameter", costs::Role::kParameter},
    {"buffer", costs::Role::kBuffer},
    {"input", costs::Role::kInput},
    {"target", costs::Role::kTarget},
    {"tangent", costs::Role::kTangent},
    {"constant", costs::Role::kConstant},
}};

std::string read_name(const JsonValue& value) {
  const std::string_view text = value.string();
  if (text.empty()) value.fail("is empty");
  return std::string(text);
}

void check_sizes(const JsonValue& value, const std::vector<std::int64_t>& sizes) {
  if (static_cast<std::int64_t>(sizes.size()) > kMaxTensorDims) {
    value.fail(fmt::format("{} dims; at most {} are read", sizes.size(), kMaxTensorDims));
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0) value.items()[i].fail(fmt::format("{} is negative", sizes[i]));
  }
}

/// Reads shape, stride and dtype of an object that may have other keys too.
TensorMeta read_tensor(const JsonValue& value) {
  TensorMeta tensor;
  const JsonValue shape = value.at("shape");
  tensor.shape = shape.int64_list();
  check_sizes(shape, tensor.shape);
  const JsonValue stride = value.at("stride");
  tensor.stride = stride.int64_list();
  check_sizes(stride, tensor.stride);
  if (tensor.stride.size() != tensor.shape.size()) {
    stride.fail(fmt::format("{} strides for {} dims", tensor.stride.size(), tensor.shape.size()));
  }
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.shape) {
    // A zero among huge sizes does not make them sensible, so it counts as one.
    const std::int64_t factor = std::max<std::int64_t>(size, 1);
    if (elements > kMaxElements / factor) shape.fail("more than 2^50 elements");
    elements *= factor;
  }
  tensor.dtype = read_dtype(value.at("dtype"));
  return tensor;
}

/// Reads one graph; holds what all its parts need.
class GraphReader {
 public:
  explicit GraphReader(const JsonValue& root)
      : inputs_(root.at("inputs").items()), nodes_(root.at("nodes").items()), outputs_(root.at("outputs").items()) {
    file_.graph.name = root.at("name").string();
    file_.graph.hash = root.at("graph_hash").string();
  }

  GraphFile read() {
    collect_keys();
    file_.graph.nodes.reserve(inputs_.size() + nodes_.size());
    file_.aliases.resize(inputs_.size() + nodes_.size());
    for (const JsonValue& input : inputs_) read_input(input);
    for (const JsonValue& node : nodes_) read_node(node);
    file_.graph.outputs.reserve(outputs_.size());
    for (const JsonValue& output : outputs_) read_output(output);
    return std::move(file_);
  }

 private:
  /// All keys first, so that a reference to a later node can be told from one to nothing.
  void collect_keys() {
    constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
    if (inputs_.size() + nodes_.size() > kMost) nodes_.front().fail("too many nodes");
    index_of_.reserve(inputs_.size() + nodes_.size());
    std::int32_t index = 0;
    for (const std::vector<JsonValue>* list : {&inputs_, &nodes_}) {
      for (const JsonValue& value : *list) {
        const JsonValue key = value.at("key");
        if (key.string().empty()) key.fail("is empty");
        const auto [other, is_new] = index_of_.emplace(key.string(), index++);
        if (!is_new) key.fail(fmt::format("this key is taken by {}", place_of(other->second)));
      }
    }
  }

  std::string place_of(std::int32_t node) const {
    const auto index = static_cast<std::size_t>(node);
    return index < inputs_.size() ? fmt::format("inputs[{}]", index) : fmt::format("nodes[{}]", index - inputs_.size());
  }

  void read_input(const JsonValue& value) {
    value.expect_keys({"key", "role", "name", "shape", "stride", "dtype", "aliases"});
    Node node;
    node.key = value.at("key").string();
    node.op = "placeholder";
    node.role = choose(value.at("role"), kRoles);
    node.name = read_name(value.at("name"));
    const bool is_state = node.role == costs::Role::kParameter || node.role == costs::Role::kBuffer;
    if (is_state) check_new_name(value.at("name"));
    node.outputs.emplace_back(read_tensor(value));
    if (const auto aliases = value.find("aliases")) {
      for (const JsonValue& alias : aliases->items()) {
        file_.aliases[file_.graph.nodes.size()].push_back(read_name(alias));
        check_new_name(alias);
      }
    }
    file_.graph.nodes.push_back(std::move(node));
  }

  /// Plans speak of parameters and buffers by name.
  void check_new_name(const JsonValue& value) {
    if (!names_.insert(value.string()).second) {
      value.fail(fmt::format("\"{}\" is the name of another parameter or buffer", value.string()));
    }
  }

  void read_node(const JsonValue& value) {
    value.expect_keys({"key", "op", "args", "kwargs", "outputs", "module", "phase", "seq", "strategies",
                       "same_strategy_as", "flops"});
    Node node;
    node.key = value.at("key").string();
    node.op = read_name(value.at("op"));
    if (node.op == "placeholder") value.at("op").fail("graph inputs belong in \"inputs\"");
    for (const JsonValue& arg : value.at("args").items()) node.args.push_back(read_arg(arg));
    if (const auto kwargs = value.find("kwargs")) {
      for (const auto& [name, arg] : kwargs->fields()) node.kwargs.emplace_back(name, read_arg(arg));
    }
    for (const JsonValue& output : value.at("outputs").items()) read_node_output(output, node);
    node.module = value.at("module").string();
    node.phase = choose(value.at("phase"), kPhases);
    if (const auto seq = value.find("seq")) {
      node.seq = seq->int64();
      if (node.seq < 0) seq->fail(fmt::format("{} is negative", node.seq));
    }
    costs::collect_inputs(node);
    read_declared(value, node);
    file_.graph.nodes.push_back(std::move(node));
  }

  /// What the model's author says about the op.
  void read_declared(const JsonValue& value, Node& node) const {
    if (const auto strategies = value.find("strategies")) {
      for (const JsonValue& strategy : strategies->items()) node.strategies.push_back(read_strategy(strategy, node));
      if (node.strategies.empty()) strategies->fail("is empty; expected the strategies that may be chosen");
    }
    if (const auto other = value.find("same_strategy_as")) {
      const auto found = index_of_.find(other->string());
      if (found == index_of_.end()) other->fail(fmt::format("unknown node \"{}\"", other->string()));
      if (ix(found->second) >= file_.graph.nodes.size()) {
        other->fail(fmt::format("\"{}\" is not an earlier node ({})", other->string(), place_of(found->second)));
      }
      const std::size_t count = file_.graph.nodes[ix(found->second)].strategies.size();
      if (count == 0 || count != node.strategies.size()) {
        other->fail(fmt::format("\"{}\" has {} strategies, this node {}; expected as many, and some", other->string(),
                                count, node.strategies.size()));
      }
      node.same_strategy_as = found->second;
    }
    if (const auto flops = value.find("flops")) {
      node.flops = flops->int64();
      if (node.flops < 0) flops->fail(fmt::format("{} is negative", node.flops));
    }
  }

  costs::DeclaredStrategy read_strategy(const JsonValue& value, const Node& node) const {
    value.expect_keys({"inputs", "outputs", "even", "mesh_dims"});
    costs::DeclaredStrategy strategy;
    const JsonValue inputs = value.at("inputs");
    const std::vector<JsonValue> given = inputs.items();
    if (given.size() != node.inputs.size()) {
      inputs.fail(fmt::format("{} placements for {} tensors", given.size(), node.inputs.size()));
    }
    for (std::size_t i = 0; i < given.size(); ++i) {
      strategy.inputs.push_back(read_placement(given[i], &file_.graph.meta(node.inputs[i])));
    }
    const JsonValue outputs = value.at("outputs");
    const std::vector<JsonValue> made = outputs.items();
    if (made.size() != node.outputs.size()) {
      outputs.fail(fmt::format("{} placements for {} outputs", made.size(), node.outputs.size()));
    }
    for (std::size_t o = 0; o < made.size(); ++o) {
      strategy.outputs.push_back(read_placement(made[o], node.outputs[o] ? &*node.outputs[o] : nullptr));
    }
    if (const auto even = value.find("even")) strategy.even = even->boolean();
    if (const auto dims = value.find("mesh_dims")) {
      for (const JsonValue& name : dims->items()) strategy.mesh_dims.emplace_back(read_name(name));
      if (strategy.mesh_dims.empty()) dims->fail("is empty; leave it out where all mesh dims are meant");
    }
    return strategy;
  }

  /// `tensor`: null for a None output, which is null here too.
  static costs::Placement read_placement(const JsonValue& value, const TensorMeta* tensor) {
    if (tensor == nullptr) {
      if (!value.is_null()) value.fail("this output is None; expected null");
      return {};
    }
    const auto placement = costs::parse_placement(value.string());
    if (!placement) {
      value.fail(fmt::format("unknown placement \"{}\"; expected R, S(0), P(sum) or the like", value.string()));
    }
    if (placement->is_shard() && placement->dim() >= tensor->rank()) {
      value.fail(fmt::format("{} of a tensor with {} dims", costs::to_string(*placement), tensor->rank()));
    }
    if (placement->is_partial() && !costs::can_be_partial(tensor->dtype)) {
      value.fail(fmt::format("a tensor of {} cannot be a pending sum", costs::dtype_name(tensor->dtype)));
    }
    return *placement;
  }

  static std::size_t ix(std::int32_t i) { return static_cast<std::size_t>(i); }

  void read_node_output(const JsonValue& value, Node& node) const {
    if (value.is_null()) {
      node.outputs.emplace_back();
      return;
    }
    value.expect_keys({"shape", "stride", "dtype"});
    node.outputs.emplace_back(read_tensor(value));
  }

  Arg read_arg(const JsonValue& value) const {
    if (value.is_null()) return {Arg::None{}};
    if (value.is_bool()) return {value.boolean()};
    if (value.is_integer()) return {value.int64()};
    if (value.is_number()) return {value.number()};
    if (value.is_string()) return {std::string(value.string())};
    if (value.is_array()) {
      Arg::List list;
      for (const JsonValue& item : value.items()) list.push_back(read_arg(item));
      return {std::move(list)};
    }
    return read_object_arg(value);
  }

  Arg read_object_arg(const JsonValue& value) const {
    if (value.find("ref")) {
      value.expect_keys({"ref", "output"});
      return {read_ref(value)};
    }
    value.expect_keys({"dtype", "device", "layout", "memory_format", "float"});
    const auto fields = value.fields();
    if (fields.size() != 1) value.fail("expected one of ref, dtype, device, layout, memory_format, float");
    const auto& [kind, content] = fields.front();
    if (kind == "float") return {read_special_float(content)};
    if (kind == "dtype") return {Arg::Name{std::string(costs::dtype_name(read_dtype(content)))}};
    return {Arg::Name{read_name(content)}};
  }

  static double read_special_float(const JsonValue& value) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr Choices<double, 3> kSpecial = {
        {{"inf", kInfinity}, {"-inf", -kInfinity}, {"nan", std::numeric_limits<double>::quiet_NaN()}}};
    return choose(value, kSpecial);
  }

  /// `value` has `ref` and perhaps `output`. Nodes that are not read yet are out of reach: the order is topological.
  ValueRef read_ref(const JsonValue& value) const {
    const JsonValue key = value.at("ref");
    const auto found = index_of_.find(key.string());
    if (found == index_of_.end()) {
      value.fail(
          fmt::format("refers to unknown node \"{}\"; expected the key of an earlier node or input", key.string()));
    }
    ValueRef ref{found->second, 0};
    const auto num_read = static_cast<std::int32_t>(file_.graph.nodes.size());
    if (ref.node >= num_read) {
      value.fail(fmt::format("refers to \"{}\", which {} ({}); expected the key of an earlier node or input",
                             key.string(), ref.node == num_read ? "is this node itself" : "stands later",
                             place_of(ref.node)));
    }
    const auto& outputs = file_.graph.nodes[static_cast<std::size_t>(ref.node)].outputs;
    if (const auto output = value.find("output")) {
      const std::int64_t index = output->int64();
      if (index < 0 || index >= static_cast<std::int64_t>(outputs.size())) {
        output->fail(fmt::format("output {} of \"{}\", which has {}", index, key.string(), outputs.size()));
      }
      ref.output = static_cast<std::int32_t>(index);
    } else if (outputs.empty()) {
      value.fail(fmt::format("refers to \"{}\", which has no output", key.string()));
    }
    if (!outputs[static_cast<std::size_t>(ref.output)]) {
      value.fail(fmt::format("uses output {} of \"{}\", which is None", ref.output, key.string()));
    }
    return ref;
  }

  std::int32_t read_input_key(const JsonValue& value) const {
    const auto found = index_of_.find(value.string());
    if (found == index_of_.end() || static_cast<std::size_t>(found->second) >= inputs_.size()) {
      value.fail(fmt::format("unknown input \"{}\"; expected the key of one of \"inputs\"", value.string()));
    }
    return found->second;
  }

  void read_output(const JsonValue& value) {
    value.expect_keys({"ref", "output", "role", "of", "alias_of"});
    costs::GraphOutput output;
    output.value = read_ref(value);
    output.role = choose(value.at("role"), kOutputRoles);
    const bool needs_of = output.role == costs::OutputRole::kGradient || output.role == costs::OutputRole::kMutation;
    const auto of = value.find("of");
    if (needs_of) {
      output.of = read_input_key(value.at("of"));
      check_same_shape(*of, output);
    } else if (of) {
      of->fail("only a gradient or mutation is \"of\" an input");
    }
    if (const auto alias = value.find("alias_of")) read_input_key(*alias);
    file_.graph.outputs.push_back(output);
  }

  void check_same_shape(const JsonValue& of, const costs::GraphOutput& output) const {
    const auto& wanted = file_.graph.meta({output.of, 0}).shape;
    const auto& found = file_.graph.meta(output.value).shape;
    if (found != wanted) {
      of.fail(fmt::format("the output has shape [{}], the input [{}]", fmt::join(found, ","), fmt::join(wanted, ",")));
    }
  }

  GraphFile file_;
  std::vector<JsonValue> inputs_;
  std::vector<JsonValue> nodes_;
  std::vector<JsonValue> outputs_;
  std::unordered_map<std::string_view, std::int32_t> index_of_;
  std::unordered_set<std::string_view> names_;  // of parameters and buffers
};

}  // namespace

GraphFile read_graph(const JsonValue& root) { return GraphReader(root).read(); }

}  // namespace autopar::io
