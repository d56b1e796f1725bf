#include "partition/build_network.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "partition/declared.h"
#include "partition/edge_tables.h"
#include "partition/intern.h"
#include "partition/model_network.h"
#include "partition/segments.h"

namespace autopar::partition {
namespace {

using costs::Graph;
using costs::GraphOutput;
using costs::Node;
using costs::OutputRole;
using costs::Phase;
using costs::Role;
using costs::ValueRef;

std::size_t ix(std::int32_t i) { return static_cast<std::size_t>(i); }

struct HashDomain {
  std::uint64_t operator()(const engine::Domain& domain) const {
    return mix_all(mix_all(domain.costs.size(), domain.costs), domain.usage);
  }
};
struct HashProjection {
  std::uint64_t operator()(const engine::Projection& projection) const { return mix_all(0, projection); }
};

/// A tensor of a variable as an end of edges: interned indices.
struct EdgeEnd {
  std::int32_t variable = -1;
  std::int32_t list = -1;
  std::int32_t projection = -1;
};

/// Interned indices of a node's choices.
struct Template {
  std::shared_ptr<const Choices> choices;
  std::int32_t domain = -1;
  std::vector<EdgeEnd> inputs;  ///< without variables
  std::vector<EdgeEnd> outputs;
};

/// A variable whose values are the placements of one list: a copy or an output.
struct PlacementVariable {
  std::int32_t list = -1;
  std::int32_t variable = -1;
};

/// Builds the network in steps, each over the whole graph.
class Builder {
 public:
  Builder(const Problem& problem, const costs::Redistributor& redistributor)
      : problem_(problem),
        graph_(problem.graph),
        redistributor_(redistributor),
        tables_(redistributor, lists_),
        impl_(std::make_shared<ModelNetwork::Impl>()) {}

  ModelNetwork run() {
    impl_->uses = collect_uses(graph_);
    make_templates();
    choose_output_states();
    choose_copy_states();
    number_variables();
    add_edges();
    finish();
    return std::move(model_);
  }

 private:
  const Node& node(std::int32_t index) const { return graph_.nodes[ix(index)]; }
  const Template& node_template(std::int32_t index) const { return templates_[template_of_[ix(index)]]; }

  void make_templates() {
    const std::vector<Pin> pins = effective_pins(problem_);
    std::vector<std::vector<int>> num_readers;
    for (const Node& each : graph_.nodes) num_readers.emplace_back(each.outputs.size());
    for (const PhaseUses& uses : impl_->uses) ++num_readers[ix(uses.value.node)][ix(uses.value.output)];

    std::unordered_map<std::string, std::size_t> by_signature;
    std::vector<std::int32_t> first_node;  // of each template
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<std::int32_t>(i);
      const std::string signature = choices_signature(graph_, index, pins[i], num_readers[i]);
      const auto [known, is_new] = by_signature.try_emplace(signature, first_node.size());
      if (is_new) first_node.push_back(index);
      template_of_.push_back(known->second);
    }
    templates_.resize(first_node.size());
    tbb::parallel_for(std::size_t{0}, templates_.size(), [&](std::size_t t) {
      const std::int32_t index = first_node[t];
      templates_[t].choices = std::make_shared<const Choices>(
          make_choices(problem_, redistributor_, index, pins[ix(index)], num_readers[ix(index)]));
    });
    std::set<std::string_view> unknown;
    for (std::size_t t = 0; t < templates_.size(); ++t) {
      const Node& first = node(first_node[t]);
      check_choices(first, pins[ix(first_node[t])], *templates_[t].choices);
      if (templates_[t].choices->is_unknown && unknown.insert(first.op).second) model_.unknown_ops.push_back(first.op);
      intern(templates_[t]);
    }
  }

  void check_choices(const Node& first, const Pin& pin, const Choices& choices) const {
    if (!choices.strategies.empty()) return;
    if (!first.strategies.empty() && choices.possible.empty()) throw PinError(no_declared_strategy(problem_, first));
    if (choices.possible.empty()) throw std::logic_error("no strategy for " + first.key + " (" + first.op + ")");
    throw PinError("\"" + first.key + "\" (" + first.op + ") cannot be placed as " + pin.source +
                   " asks; possible are: " + to_string(choices.possible, problem_.mesh.rank()));
  }

  void intern(Template& made) {
    made.domain = domains_.add(made.choices->domain);
    for (const Port& port : made.choices->inputs) made.inputs.push_back(intern_port(port));
    for (const Port& port : made.choices->outputs) made.outputs.push_back(intern_port(port));
  }

  EdgeEnd intern_port(const Port& port) { return {-1, lists_.add(port.placements), projections_.add(port.state_of)}; }

  /// The loss and plain outputs choose what is handed out; gradients and mutations go where their tensor is.
  void choose_output_states() {
    outputs_.resize(graph_.outputs.size());
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      if (graph_.outputs[i].of < 0) outputs_[i].list = lists_.add(output_states(i));
    }
  }

  PlacementList output_states(std::size_t output) const {
    const ValueRef value = graph_.outputs[output].value;
    const costs::RedistributeTable& table = redistributor_.table(graph_.meta(value));
    const Pin pin = output < problem_.pins.outputs.size()
                        ? without_trivial_dims(problem_.pins.outputs[output], problem_.mesh)
                        : Pin{};
    PlacementList possible;
    PlacementList states;
    for (const costs::Placements& placements : table.states()) {
      if (!is_canonical(placements)) continue;
      possible.push_back(placements);
      if (pin.allows(placements) && is_finished(placements, pin)) states.push_back(placements);
    }
    if (states.empty()) {
      throw PinError("the output \"" + node(value.node).key + "\" cannot be placed as " + pin.source +
                     " asks; possible are: " + to_string(possible, problem_.mesh.rank()));
    }
    return states;
  }

  /// False for the placements on mesh dims of one device that mean the same as Replicate.
  bool is_canonical(const costs::Placements& placements) const {
    for (int dim = 0; dim < problem_.mesh.rank(); ++dim) {
      if (problem_.mesh.shape[static_cast<std::size_t>(dim)] == 1 && !placements[dim].is_replicate()) return false;
    }
    return true;
  }

  /// An unfinished sum is only handed out where the user asks for it.
  bool is_finished(const costs::Placements& placements, const Pin& pin) const {
    for (int dim = 0; dim < problem_.mesh.rank(); ++dim) {
      if (placements[dim].is_partial() && !pin.at[static_cast<std::size_t>(dim)]) return false;
    }
    return true;
  }

  /// The list of placements that use `use` reads.
  std::int32_t wanted_list(const Redistribution::Use& use) const {
    if (use.input >= 0) return node_template(use.node).inputs[ix(use.input)].list;
    const std::int32_t of = graph_.outputs[ix(use.node)].of;
    return of < 0 ? outputs_[ix(use.node)].list : node_template(of).outputs[0].list;
  }

  /// A value with several readers in a phase gets a copy: what the producer gives or any reader wants.
  void choose_copy_states() {
    std::map<std::vector<std::int32_t>, std::int32_t> known;
    for (const PhaseUses& uses : impl_->uses) {
      PlacementVariable& copy = copies_.emplace_back();
      if (uses.uses.size() < 2) continue;
      std::vector<std::int32_t> sources = {node_template(uses.value.node).outputs[ix(uses.value.output)].list};
      for (const Redistribution::Use& use : uses.uses) sources.push_back(wanted_list(use));
      std::sort(sources.begin(), sources.end());
      sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
      const auto [entry, is_new] = known.try_emplace(sources, -1);
      if (is_new) {
        std::set<costs::Placements> states;
        for (const std::int32_t list : sources) states.insert(lists_[list].begin(), lists_[list].end());
        entry->second = lists_.add(PlacementList(states.begin(), states.end()));
      }
      copy.list = entry->second;
    }
  }

  /// Where a variable stands: segment by segment, within a segment in the order of the joint graph, graph inputs before
  /// their first reader and copies behind what they are copies of. Identical layers get identical orders.
  struct Place {
    std::int32_t segment = 0;
    std::int32_t position = 0;
    bool is_op = true;
    std::int32_t producer = 0;
    std::int32_t rank = 0;  ///< 0: the node, then its copies, then its outputs
    auto key() const { return std::tie(segment, position, is_op, producer, rank); }
  };

  void number_variables() {
    const Segments segments = find_segments(graph_);
    const std::vector<std::int32_t> positions = node_positions();
    struct Entry {
      Place place;
      std::int32_t domain = -1;
      std::int32_t* variable = nullptr;
    };
    std::vector<Entry> entries;
    impl_->node_variable.resize(graph_.nodes.size());
    const auto add = [&](std::int32_t producer, std::int32_t rank, std::int32_t domain, std::int32_t& variable) {
      const Place place{segments.of_node[ix(producer)], positions[ix(producer)], node(producer).role == Role::kNone,
                        producer, rank};
      entries.push_back({place, domain, &variable});
    };
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<std::int32_t>(i);
      add(index, 0, node_template(index).domain, impl_->node_variable[i]);
    }
    std::int32_t rank = 0;
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      if (copies_[i].list >= 0)
        add(impl_->uses[i].value.node, ++rank, list_domain(copies_[i].list), copies_[i].variable);
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].list < 0) continue;
      add(graph_.outputs[i].value.node, ++rank, list_domain(outputs_[i].list), outputs_[i].variable);
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.place.key() < b.place.key(); });
    for (const Entry& entry : entries) {
      *entry.variable = static_cast<std::int32_t>(model_.network.variables.size());
      const bool has_usage = !domains_[entry.domain].usage.empty();
      model_.network.variables.push_back({entry.domain, entry.place.segment, 0, has_usage ? 1 : 0});
    }
  }

  /// A graph input's position is that of its first reader.
  std::vector<std::int32_t> node_positions() const {
    std::vector<std::int32_t> positions(graph_.nodes.size());
    std::iota(positions.begin(), positions.end(), 0);
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      for (const ValueRef& input : graph_.nodes[i].inputs) {
        if (node(input.node).role != Role::kNone) positions[ix(input.node)] = static_cast<std::int32_t>(i);
      }
    }
    return positions;
  }

  std::int32_t list_domain(std::int32_t list) {
    const auto [entry, is_new] = list_domains_.try_emplace(list, -1);
    if (is_new) {
      engine::Domain domain;
      domain.costs.resize(lists_[list].size());
      domain.levels = placement_levels(lists_[list], problem_.mesh.rank());
      entry->second = domains_.add(std::move(domain));
    }
    return entry->second;
  }

  EdgeEnd end_of(const PlacementVariable& own) {
    engine::Projection identity(lists_[own.list].size());
    std::iota(identity.begin(), identity.end(), 0);
    return {own.variable, own.list, projections_.add(std::move(identity))};
  }

  EdgeEnd producer_end(ValueRef value) const {
    EdgeEnd end = node_template(value.node).outputs[ix(value.output)];
    end.variable = impl_->node_variable[ix(value.node)];
    return end;
  }

  EdgeEnd use_end(const Redistribution::Use& use) {
    if (use.input >= 0) {
      EdgeEnd end = node_template(use.node).inputs[ix(use.input)];
      end.variable = impl_->node_variable[ix(use.node)];
      return end;
    }
    const std::int32_t of = graph_.outputs[ix(use.node)].of;
    return of < 0 ? end_of(outputs_[ix(use.node)]) : producer_end({of, 0});
  }

  void add_edges() {
    for (std::size_t i = 0; i < impl_->uses.size(); ++i) {
      const PhaseUses& uses = impl_->uses[i];
      EdgeEnd source = producer_end(uses.value);
      if (copies_[i].list >= 0) {
        const EdgeEnd copy = end_of(copies_[i]);
        add_edge(i, -1, source, copy);
        source = copy;
      }
      for (std::size_t u = 0; u < uses.uses.size(); ++u) {
        add_edge(i, static_cast<std::int32_t>(u), source, use_end(uses.uses[u]));
      }
    }
  }

  void add_edge(std::size_t uses, std::int32_t use, const EdgeEnd& from, const EdgeEnd& to) {
    // A tensor handed out as it came in is in its own placement.
    if (from.variable == to.variable) return;
    const std::int32_t handle = tables_.ask(graph_.meta(impl_->uses[uses].value), from.list, to.list);
    model_.network.edges.push_back({from.variable, to.variable, handle, from.projection, to.projection});
    impl_->links.push_back({static_cast<std::int32_t>(uses), use, from.list, to.list});
  }

  /// Ties come behind the edges that are redistributions, which `links` describes.
  void add_ties() {
    engine::CostNetwork& network = model_.network;
    std::map<std::int32_t, std::int32_t> table_of_size;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const std::int32_t other = graph_.nodes[i].same_strategy_as;
      if (other < 0) continue;
      const auto index = static_cast<std::int32_t>(i);
      Tie made = tie(node_template(other).choices->strategies, node_template(index).choices->strategies);
      if (!made.can_hold) throw PinError(no_common_strategy(other, index));
      const auto next_table = static_cast<std::int32_t>(network.tables.size());
      const auto [table, is_new] = table_of_size.try_emplace(made.table.rows, next_table);
      if (is_new) network.tables.push_back(std::move(made.table));
      network.edges.push_back({impl_->node_variable[ix(other)], impl_->node_variable[i], table->second,
                               projections_.add(std::move(made.first)), projections_.add(std::move(made.second))});
    }
  }

  std::string no_common_strategy(std::int32_t first, std::int32_t second) const {
    const std::vector<Pin> pins = effective_pins(problem_);
    std::set<std::string> sources = {pins[ix(first)].source, pins[ix(second)].source};
    sources.erase("");
    std::string text = "\"" + node(second).key + "\" must choose the same of its strategies as \"" + node(first).key +
                       "\", but none is possible for both on this mesh";
    for (const std::string& source : sources) text += (source == *sources.begin() ? " with " : " and ") + source;
    return text;
  }

  void finish() {
    tables_.price();
    engine::CostNetwork& network = model_.network;
    for (engine::Edge& edge : network.edges) edge.table = tables_.table_of(edge.table);
    network.tables = tables_.take_tables();
    add_ties();
    network.domains = domains_.take();
    network.projections = projections_.take();
    if (problem_.pins.memory_limit_bytes > 0) network.usage_limit = problem_.pins.memory_limit_bytes;
    for (const std::size_t t : template_of_) impl_->choices.push_back(templates_[t].choices);
    for (const PlacementVariable& copy : copies_) impl_->copy_variable.push_back(copy.variable);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::int32_t of = graph_.outputs[i].of;
      impl_->output_variable.push_back(of < 0 ? outputs_[i].variable : impl_->node_variable[ix(of)]);
      impl_->output_list.push_back(outputs_[i].list);
    }
    impl_->lists = lists_.take();
    model_.impl = std::move(impl_);
  }

  const Problem& problem_;
  const Graph& graph_;
  const costs::Redistributor& redistributor_;
  PlacementLists lists_;
  Interner<engine::Domain, HashDomain> domains_;
  Interner<engine::Projection, HashProjection> projections_;
  EdgeTables tables_;
  std::vector<Template> templates_;
  std::vector<std::size_t> template_of_;    // per node
  std::vector<PlacementVariable> outputs_;  // per graph output
  std::vector<PlacementVariable> copies_;   // per entry of uses
  std::map<std::int32_t, std::int32_t> list_domains_;
  std::shared_ptr<ModelNetwork::Impl> impl_;
  ModelNetwork model_;
};

}  // namespace

ModelNetwork build_network(const Problem& problem, const costs::Redistributor& redistributor) {
  return Builder(problem, redistributor).run();
}

}  // namespace autopar::partition
