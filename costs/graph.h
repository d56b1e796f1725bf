#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "costs/dtype.h"
#include "costs/placement.h"

/// The joint forward+backward ATen graph of one training step, as model.json holds it.
namespace autopar::costs {

/// Global (unsharded) shape of a tensor. Strides are in elements.
struct TensorMeta {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> stride;
  DType dtype = DType::kFloat32;

  std::int64_t rank() const { return static_cast<std::int64_t>(shape.size()); }
  std::int64_t numel() const {
    std::int64_t n = 1;
    for (std::int64_t size : shape) n *= size;
    return n;
  }
  std::int64_t bytes() const { return numel() * dtype_bytes(dtype); }
  bool operator==(const TensorMeta&) const = default;
};

/// Output `output` of node `node` (an index into Graph::nodes).
struct ValueRef {
  std::int32_t node = -1;
  std::int32_t output = 0;
  auto operator<=>(const ValueRef&) const = default;
};

/// One argument of an op: None, a literal, a tensor (ValueRef), or a list of arguments.
/// A dtype, device, layout or memory format literal is a Name.
struct Arg {
  struct None {
    bool operator==(const None&) const = default;
  };
  struct Name {
    std::string text;
    bool operator==(const Name&) const = default;
  };
  using List = std::vector<Arg>;
  std::variant<None, bool, std::int64_t, double, std::string, Name, ValueRef, List> value;

  bool operator==(const Arg&) const = default;

  bool is_none() const { return std::holds_alternative<None>(value); }
  bool is_tensor() const { return std::holds_alternative<ValueRef>(value); }
  const std::int64_t* as_int() const { return std::get_if<std::int64_t>(&value); }
  const bool* as_bool() const { return std::get_if<bool>(&value); }
  const double* as_double() const { return std::get_if<double>(&value); }
  const ValueRef* as_tensor() const { return std::get_if<ValueRef>(&value); }
  const List* as_list() const { return std::get_if<List>(&value); }
};

enum class Phase : std::uint8_t { kForward, kBackward };

/// What a graph input or output is to the training step.
enum class Role : std::uint8_t {
  kNone,  ///< an op, not a graph input
  kParameter,
  kBuffer,
  kInput,     ///< an argument of the model's call
  kTarget,    ///< an argument used only as the loss's label
  kTangent,   ///< the incoming gradient of an output (of the loss: the scalar 1)
  kConstant,  ///< a tensor literal of the graph
};

/// A one-mesh-dim strategy that the model file itself gives for a node: its author knows the op.
struct DeclaredStrategy {
  std::vector<Placement> inputs;            ///< one per Node::inputs
  std::vector<Placement> outputs;           ///< one per Node::outputs; for a None output Replicate
  bool even = false;                        ///< all pieces of a tensor must be equal
  std::vector<std::string> mesh_dims = {};  ///< names of the mesh dims along which it may be chosen; empty: all
};

/// What a compiler makes of a node by fusing it with others to one kernel (costs/fusion.h).
struct Fusion {
  bool is_fused = false;               ///< false: a kernel of its own, and the rest has no meaning
  bool starts_kernel = false;          ///< the kernel's launch counts here
  std::vector<char> is_read;           ///< per Node::inputs: the kernel reads it from memory, for the first time here
  std::vector<char> is_written;        ///< per Node::outputs: others than the kernel itself need it in memory
  std::vector<char> is_written_again;  ///< the same, where the node runs again in the backward
};

/// Graph inputs are nodes too: their op is "placeholder" and they have one output.
struct Node {
  std::string key;  ///< unique, stable when unrelated parts of the model change
  std::string op;   ///< ATen overload, such as "aten.mm.default"; "placeholder" for graph inputs
  std::vector<Arg> args;
  std::vector<std::pair<std::string, Arg>> kwargs;
  std::vector<std::optional<TensorMeta>> outputs;  ///< nothing: the op returns None there
  std::string module;                              ///< path of the module, "" at the top
  Phase phase = Phase::kForward;
  std::int64_t seq = -1;  ///< autograd sequence number: equal in a forward node and its backward nodes
  Role role = Role::kNone;
  std::string name;                          ///< fully qualified name of a parameter or buffer, name of an input
  std::vector<DeclaredStrategy> strategies;  ///< if any, what may be chosen, in place of the op's rule
  std::int32_t same_strategy_as = -1;        ///< a node that must choose the same of its declared strategies; -1: none
  std::int64_t flops = -1;                   ///< of the whole op on all devices, if the model file says; else -1
  Fusion fusion;

  /// The tensor arguments, in the order they appear in args (lists flattened), then kwargs.
  /// Rules and plans index a node's inputs by position in this vector; a value used twice is there twice.
  std::vector<ValueRef> inputs;
};

enum class OutputRole : std::uint8_t { kLoss, kOutput, kGradient, kMutation };

struct GraphOutput {
  ValueRef value;
  OutputRole role = OutputRole::kOutput;
  std::int32_t of = -1;  ///< kGradient: node of the input it is the gradient of; kMutation: node of the mutated input
};

struct Graph {
  std::string name;
  std::string hash;         ///< graph_hash of model.json
  std::vector<Node> nodes;  ///< topological: a node comes after all that it reads
  std::vector<GraphOutput> outputs;

  /// Requires: the output exists (is not None); readers check this for every ValueRef of the graph.
  const TensorMeta& meta(ValueRef ref) const {
    return *nodes[static_cast<std::size_t>(ref.node)].outputs[static_cast<std::size_t>(ref.output)];
  }
};

/// Fills Node::inputs from args and kwargs.
void collect_inputs(Node& node);

}  // namespace autopar::costs
