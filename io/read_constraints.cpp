#include "io/read_constraints.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "costs/placement.h"
#include "io/file.h"
#include "partition/recompute.h"

namespace autopar::io {
namespace {

using costs::Placement;
using costs::Role;

/// Wanted placements by mesh dim, as a pattern's value says it.
using Wanted = std::array<std::optional<Placement>, costs::kMaxMeshDims>;

/// What a layer asks of one tensor, with the pattern that asked for it.
struct Target {
  struct Want {
    Placement placement;
    const JsonValue* source = nullptr;
  };
  std::array<std::optional<Want>, costs::kMaxMeshDims> at{};
};

/// Names by which one tensor can be pinned.
struct Names {
  std::vector<std::string> all;
  bool match(const std::string& pattern) const {
    return std::any_of(all.begin(), all.end(), [&](const auto& name) { return matches_pattern(pattern, name); });
  }
};

std::string source_text(const JsonValue& source) { return fmt::format("{}: {}", source.file(), source.place()); }

Placement read_placement(const JsonValue& value) {
  const auto placement = costs::parse_placement(value.string());
  if (!placement) value.fail(fmt::format("expected R, S(dim) or P(sum), found \"{}\"", value.string()));
  return *placement;
}

bool is_free(const JsonValue& value) { return value.is_null() || (value.is_string() && value.string() == "*"); }

int find_mesh_dim(const JsonValue& value, std::string_view name, const costs::Mesh& mesh) {
  for (int i = 0; i < mesh.rank(); ++i) {
    if (mesh.dim_names[static_cast<std::size_t>(i)] == name) return i;
  }
  int index = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error != std::errc{} || end != name.data() + name.size() || index < 0 || index >= mesh.rank()) {
    value.fail(fmt::format("the mesh has no dim \"{}\"; it has {}", name, fmt::join(mesh.dim_names, ", ")));
  }
  return index;
}

Wanted read_wanted(const JsonValue& value, const costs::Mesh& mesh) {
  Wanted wanted;
  if (value.is_array()) {
    const std::vector<JsonValue> items = value.items();
    if (items.size() != static_cast<std::size_t>(mesh.rank())) {
      value.fail(fmt::format("{} placements for a mesh of {} dims", items.size(), mesh.rank()));
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!is_free(items[i])) wanted[i] = read_placement(items[i]);
    }
    return wanted;
  }
  if (!value.is_object()) value.fail("expected a list of placements or an object by mesh dim");
  for (const auto& [name, placement] : value.fields()) {
    const auto dim = static_cast<std::size_t>(find_mesh_dim(placement, name, mesh));
    if (is_free(placement)) continue;
    if (wanted[dim]) placement.fail("this mesh dim is there twice, by name and by index");
    wanted[dim] = read_placement(placement);
  }
  return wanted;
}

class Resolver {
 public:
  Resolver(const GraphFile& graph_file, const costs::Mesh& mesh) : graph_(graph_file.graph), mesh_(mesh) {
    parameters_.resize(graph_.nodes.size());
    inputs_.resize(graph_.nodes.size());
    nodes_.resize(graph_.nodes.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const costs::Node& node = graph_.nodes[i];
      nodes_[i].all = {node.key};
      if (node.role == Role::kParameter) {
        parameters_[i].all = graph_file.aliases[i];
        parameters_[i].all.push_back(node.name);
      } else if (node.role == Role::kInput || node.role == Role::kTarget) {
        inputs_[i].all = {node.name};
      }
    }
    name_outputs();
  }

  partition::Pins resolve(const std::vector<JsonValue>& layers, std::int64_t default_limit) {
    pins_.memory_limit_bytes = default_limit;
    pins_.nodes.resize(graph_.nodes.size());
    pins_.outputs.resize(graph_.outputs.size());
    for (const JsonValue& layer : layers) add_layer(layer);
    return std::move(pins_);
  }

 private:
  void name_outputs() {
    int num_plain = 0;
    for (const costs::GraphOutput& output : graph_.outputs) {
      Names names;
      if (output.role == costs::OutputRole::kLoss) names.all = {"loss"};
      if (output.role == costs::OutputRole::kOutput) names.all = {fmt::format("output.{}", num_plain++)};
      if (output.of >= 0) {
        const auto of = static_cast<std::size_t>(output.of);
        const bool is_gradient = output.role == costs::OutputRole::kGradient;
        names.all = {(is_gradient ? "gradient." : "mutation.") + graph_.nodes[of].name};
        for (const std::string& alias : parameters_[of].all) names.all.push_back("gradient." + alias);
      }
      outputs_.push_back(std::move(names));
    }
  }

  void add_layer(const JsonValue& layer) {
    if (const auto limit = layer.find("memory_limit_bytes")) {
      pins_.memory_limit_bytes = limit->int64();
      if (pins_.memory_limit_bytes < 1) limit->fail(fmt::format("expected at least 1, found {}", limit->int64()));
    }
    if (const auto optimizer = layer.find("optimizer")) read_optimizer(*optimizer);
    if (const auto recompute = layer.find("recompute")) {
      pins_.recompute = matches(*recompute, partition::repeatable_nodes(graph_),
                                "the pattern matches no node that can run again in the backward");
    }
    if (const auto compiled = layer.find("compiled")) read_compiled(*compiled);
    std::vector<Target> nodes(graph_.nodes.size());
    std::vector<Target> outputs(graph_.outputs.size());
    sources_.clear();
    add_section(layer, "parameters", parameters_, nodes);
    add_section(layer, "inputs", inputs_, nodes);
    add_section(layer, "nodes", nodes_, nodes);
    add_section(layer, "outputs", outputs_, outputs);
    tie_gradients(nodes, outputs);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const bool at_rest = graph_.nodes[i].role != Role::kNone;
      if (graph_.nodes[i].outputs.empty() || !graph_.nodes[i].outputs[0]) {
        refuse(nodes[i], "the node has no first output to place");
      } else {
        overlay(nodes[i], *graph_.nodes[i].outputs[0], at_rest, graph_.nodes[i].key, pins_.nodes[i]);
      }
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const costs::ValueRef value = graph_.outputs[i].value;
      const bool at_rest = graph_.outputs[i].role == costs::OutputRole::kGradient;
      overlay(outputs[i], graph_.meta(value), at_rest, outputs_[i].all.front(), pins_.outputs[i]);
    }
  }

  void read_optimizer(const JsonValue& value) {
    constexpr std::int64_t kMostBytes = 1 << 10;
    value.expect_keys({"bytes_per_element", "master_bytes_per_element"});
    for (const auto& [key, member] :
         {std::pair{"bytes_per_element", &pins_.optimizer.bytes_per_element},
          std::pair{"master_bytes_per_element", &pins_.optimizer.master_bytes_per_element}}) {
      if (const auto bytes = value.find(key)) {
        *member = bytes->int64();
        if (*member < 0 || *member > kMostBytes) bytes->fail(fmt::format("expected 0 to {}", kMostBytes));
      }
    }
  }

  /// Of the nodes in `among`, those that one of the patterns matches.
  std::vector<char> matches(const JsonValue& patterns, const std::vector<char>& among, const char* no_match) const {
    std::vector<char> matched(graph_.nodes.size(), 0);
    for (const JsonValue& pattern : patterns.items()) {
      const std::string text(pattern.string());
      bool is_used = false;
      for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
        if (among[i] == 0 || !nodes_[i].match(text)) continue;
        is_used = true;
        matched[i] = 1;
      }
      if (!is_used) pattern.fail(no_match);
    }
    return matched;
  }

  /// A later layer's value replaces an earlier one's.
  void read_compiled(const JsonValue& value) {
    std::vector<char> runs;
    for (const costs::Node& node : graph_.nodes) runs.push_back(node.role == Role::kNone ? 1 : 0);
    if (value.is_array()) {
      pins_.compiled = matches(value, runs, "the pattern matches no node that runs");
    } else {
      pins_.compiled = value.boolean() ? runs : std::vector<char>();
    }
  }

  void add_section(const JsonValue& layer, std::string_view section, const std::vector<Names>& names,
                   std::vector<Target>& targets) {
    const auto patterns = layer.find(section);
    if (!patterns) return;
    for (const auto& [pattern, value] : patterns->fields()) {
      const Wanted wanted = read_wanted(value, mesh_);
      const JsonValue* source = sources_.emplace_back(std::make_unique<JsonValue>(value)).get();
      const std::string text(pattern);
      bool matched = false;
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (!names[i].match(text)) continue;
        matched = true;
        for (std::size_t dim = 0; dim < wanted.size(); ++dim) {
          if (wanted[dim]) want(targets[i], dim, {*wanted[dim], source}, names[i].all.back());
        }
      }
      if (!matched) value.fail(fmt::format("the pattern matches none of the graph's {}", section));
    }
  }

  void want(Target& target, std::size_t dim, const Target::Want& want, const std::string& name) const {
    std::optional<Target::Want>& known = target.at[dim];
    if (known && known->placement != want.placement) {
      want.source->fail(fmt::format("wants {} for \"{}\" on mesh dim {}, but {} wants {}",
                                    costs::to_string(want.placement), name, mesh_.dim_names[dim],
                                    source_text(*known->source), costs::to_string(known->placement)));
    }
    if (!known) known = want;
  }

  /// A parameter and its gradient share placements, so what is asked of one is asked of the other.
  void tie_gradients(std::vector<Target>& nodes, std::vector<Target>& outputs) const {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const costs::GraphOutput& output = graph_.outputs[i];
      if (output.role != costs::OutputRole::kGradient) continue;
      const auto of = static_cast<std::size_t>(output.of);
      if (graph_.nodes[of].role != Role::kParameter) continue;
      for (std::size_t dim = 0; dim < outputs[i].at.size(); ++dim) {
        if (outputs[i].at[dim]) want(nodes[of], dim, *outputs[i].at[dim], graph_.nodes[of].name);
        if (nodes[of].at[dim]) want(outputs[i], dim, *nodes[of].at[dim], graph_.nodes[of].name);
      }
    }
  }

  static void refuse(const Target& target, std::string_view reason) {
    for (const auto& want : target.at) {
      if (want) want->source->fail(reason);
    }
  }

  /// Puts this layer's wishes for one tensor over those of the layers before. `at_rest`: a tensor that is kept between
  /// steps or comes from outside, and so cannot be an unfinished sum.
  void overlay(const Target& target, const costs::TensorMeta& tensor, bool at_rest, const std::string& name,
               partition::Pin& pin) const {
    std::string sources;
    for (std::size_t dim = 0; dim < target.at.size(); ++dim) {
      const auto& want = target.at[dim];
      if (!want) continue;
      check_one(*want, tensor, at_rest, name);
      // All placements are the same on a mesh dim of one device: there is nothing to ask for.
      if (mesh_.shape[dim] == 1) continue;
      pin.at[dim] = want->placement;
      const std::string source = source_text(*want->source);
      if (sources.find(source) == std::string::npos) sources += (sources.empty() ? "" : " and ") + source;
    }
    if (sources.empty()) return;
    pin.source = pin.source.empty() ? sources : sources + ", over " + pin.source;
    check_pieces(target, pin, tensor, name);
  }

  static void check_one(const Target::Want& want, const costs::TensorMeta& tensor, bool at_rest,
                        const std::string& name) {
    const Placement placement = want.placement;
    if (placement.is_shard() && placement.dim() >= tensor.rank()) {
      want.source->fail(fmt::format("{} of \"{}\", which has {} dims: [{}]", costs::to_string(placement), name,
                                    tensor.rank(), fmt::join(tensor.shape, ",")));
    }
    if (placement.is_partial() && at_rest) {
      want.source->fail(fmt::format("\"{}\" cannot be {}: only what an op computes can be an unfinished sum", name,
                                    costs::to_string(placement)));
    }
  }

  void check_pieces(const Target& target, const partition::Pin& pin, const costs::TensorMeta& tensor,
                    const std::string& name) const {
    costs::Placements placements;
    for (int i = 0; i < mesh_.rank(); ++i) {
      placements[i] = pin.at[static_cast<std::size_t>(i)].value_or(Placement::replicate());
    }
    if (costs::is_legal(tensor, placements, mesh_)) return;
    for (std::int64_t dim = 0; dim < tensor.rank(); ++dim) {
      const std::int64_t pieces = costs::num_shards(placements, mesh_, dim);
      if (pieces <= 1) continue;
      refuse(target, fmt::format("{} leaves devices without a piece of \"{}\": its dim {} has size {}, cut into {}",
                                 costs::to_string(placements, mesh_.rank()), name, dim,
                                 tensor.shape[static_cast<std::size_t>(dim)], pieces));
    }
  }

  const costs::Graph& graph_;
  const costs::Mesh& mesh_;
  std::vector<Names> parameters_;
  std::vector<Names> inputs_;
  std::vector<Names> nodes_;
  std::vector<Names> outputs_;
  std::vector<std::unique_ptr<JsonValue>> sources_;  // of the layer being read; targets point to them
  partition::Pins pins_;
};

}  // namespace

bool matches_pattern(const std::string& pattern, const std::string& name) {
  // A name can hold brackets, which a pattern would read as a set of characters.
  return name == pattern || ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

ConstraintsFile read_constraints(const std::string& file, const std::string& text) {
  auto document = std::make_shared<JsonDocument>(file, text);
  const JsonValue root = document->root();
  expect_format(root, "autopar-constraints", 1);
  root.expect_keys({"format", "version", "memory_limit_bytes", "optimizer", "compiled", "recompute", "parameters",
                    "inputs", "outputs", "nodes"});
  return {root, content_hash(text), std::move(document)};
}

void check_constraint_keys(const JsonValue& constraints) {
  constraints.expect_keys(
      {"memory_limit_bytes", "optimizer", "compiled", "recompute", "parameters", "inputs", "outputs", "nodes"});
}

partition::Pins resolve_constraints(const std::vector<JsonValue>& layers, const GraphFile& graph,
                                    const costs::Mesh& mesh, const costs::Cluster& cluster) {
  return Resolver(graph, mesh).resolve(layers, cluster.device.memory_bytes);
}

}  // namespace autopar::io
