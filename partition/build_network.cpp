#include "partition/build_network.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <array>
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

#include "costs/memory.h"
#include "engine/index.h"
#include "engine/intern.h"
#include "partition/declared.h"
#include "partition/edge_tables.h"
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

using engine::ix;

struct HashProjection {
  std::uint64_t operator()(const engine::Projection& projection) const { return engine::mix_all(0, projection); }
};

using EdgeEnd = ModelNetwork::Impl::LinkEnd;

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

/// How a value is there for the backward: kept from the forward, or made again by an optional node, or not at all. Each
/// of its neighbours sees its own side of that: the producer what is kept, the optional node what it makes, readers
/// either.
struct SavedVariable {
  EdgeEnd kept;
  EdgeEnd again;
  EdgeEnd read;
  std::int32_t domain = -1;
  std::vector<engine::Span> spans;
  std::int32_t variable = -1;
};

/// A variable whose values are pairs of placements, in place of an edge.
struct PairVariable {
  std::int32_t from_list = -1;
  std::int32_t to_list = -1;
  std::int32_t domain = -1;
  std::int32_t from = -1;  ///< projections of the pairs
  std::int32_t to = -1;
  std::vector<engine::Span> spans;
  std::int32_t variable = -1;
};

/// Builds the network in steps, each over the whole graph.
class Builder {
 public:
  Builder(const Problem& problem, const costs::Redistributor& redistributor, const BuildOptions& options)
      : problem_(problem),
        graph_(problem.graph),
        redistributor_(redistributor),
        options_(options),
        timeline_(Timeline::of(problem.graph)),
        tables_(redistributor, lists_),
        impl_(std::make_shared<ModelNetwork::Impl>()) {
    impl_->time_points = options.time_points;
  }

  ModelNetwork run() {
    impl_->uses = collect_uses(graph_);
    impl_->windows = find_windows(problem_, impl_->uses);
    usage_ = find_point_usage(graph_, timeline_, impl_->uses, impl_->time_points,
                              impl_->windows ? &*impl_->windows : nullptr, !options_.is_optional.empty());
    make_templates();
    choose_output_states();
    choose_copy_states();
    choose_kept_states();
    choose_saved_states();
    make_pairs();
    number_variables();
    add_edges();
    finish();
    return std::move(model_);
  }

 private:
  const Node& node(std::int32_t index) const { return graph_.nodes[ix(index)]; }
  const Template& node_template(std::int32_t index) const { return templates_[template_of_[ix(index)]]; }

  void make_templates() {
    const std::vector<NodeContext> contexts = node_contexts();
    std::unordered_map<std::string, std::size_t> by_signature;
    std::vector<std::int32_t> first_node;  // of each template
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<std::int32_t>(i);
      const std::string signature = choices_signature(graph_, index, contexts[i]);
      const auto [known, is_new] = by_signature.try_emplace(signature, first_node.size());
      if (is_new) first_node.push_back(index);
      template_of_.push_back(known->second);
    }
    templates_.resize(first_node.size());
    tbb::parallel_for(std::size_t{0}, templates_.size(), [&](std::size_t t) {
      const std::int32_t index = first_node[t];
      templates_[t].choices =
          std::make_shared<const Choices>(make_choices(problem_, redistributor_, index, contexts[ix(index)]));
    });
    std::set<std::string_view> unknown;
    for (std::size_t t = 0; t < templates_.size(); ++t) {
      const Node& first = node(first_node[t]);
      check_choices(first, contexts[ix(first_node[t])].pin, *templates_[t].choices);
      if (templates_[t].choices->is_unknown && unknown.insert(first.op).second) model_.unknown_ops.push_back(first.op);
      intern(templates_[t]);
    }
  }

  std::vector<NodeContext> node_contexts() const {
    const std::vector<Pin> pins = effective_pins(problem_);
    std::vector<NodeContext> contexts;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      contexts.push_back({pins[i], std::vector<int>(graph_.nodes[i].outputs.size()), usage_.nodes[i],
                          usage_.inputs_count[i] != 0, usage_.outputs_count[i] != 0, false, is_optional(i)});
    }
    for (const costs::GraphOutput& output : graph_.outputs) {
      if (output.role == costs::OutputRole::kGradient && node(output.of).role == costs::Role::kParameter) {
        contexts[ix(output.of)].is_trained = true;
      }
    }
    for (const PhaseUses& uses : impl_->uses) ++contexts[ix(uses.value.node)].num_readers[ix(uses.value.output)];
    return contexts;
  }

  bool is_optional(std::size_t node) const { return !options_.is_optional.empty() && options_.is_optional[node] != 0; }

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

  /// The lists of what a value is given as and of what its readers in a phase want.
  std::vector<std::int32_t> lists_around(const PhaseUses& uses) const {
    std::vector<std::int32_t> lists = {given_list(uses.value)};
    for (const Redistribution::Use& use : uses.uses) lists.push_back(wanted_list(use));
    std::sort(lists.begin(), lists.end());
    lists.erase(std::unique(lists.begin(), lists.end()), lists.end());
    return lists;
  }

  std::set<costs::Placements> joined(const std::vector<std::int32_t>& lists) const {
    std::set<costs::Placements> states;
    for (const std::int32_t list : lists) states.insert(lists_[list].begin(), lists_[list].end());
    return states;
  }

  /// A value with several readers in a phase gets a copy: what the producer gives or any reader wants.
  void choose_copy_states() {
    std::map<std::vector<std::int32_t>, std::int32_t> known;
    for (const PhaseUses& uses : impl_->uses) {
      PlacementVariable& copy = copies_.emplace_back();
      if (uses.uses.size() < 2) continue;
      const std::vector<std::int32_t> lists = lists_around(uses);
      const auto [entry, is_new] = known.try_emplace(lists, -1);
      if (is_new) {
        const std::set<costs::Placements> states = joined(lists);
        entry->second = lists_.add(PlacementList(states.begin(), states.end()));
      }
      copy.list = entry->second;
    }
  }

  /// A value that both phases may share has a choice: as the producer gives it, or made once and kept.
  void choose_kept_states() {
    kept_.resize(impl_->uses.size());
    const std::vector<char> may = may_be_kept(graph_, impl_->uses);
    std::map<std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>, std::int32_t> known;
    for (std::size_t i = 0; i + 1 < may.size(); ++i) {
      const PhaseUses& uses = impl_->uses[i];
      if (may[i] == 0 || uses.phase != Phase::kForward) continue;
      const std::vector<std::int32_t> forward = lists_around(uses);
      const std::vector<std::int32_t> backward = lists_around(impl_->uses[i + 1]);
      const auto [entry, is_new] = known.try_emplace({forward, backward}, -1);
      if (is_new) {
        const std::set<costs::Placements> given = joined({given_list(uses.value)});
        std::set<costs::Placements> states = joined(forward);
        states.merge(joined(backward));
        states.insert(costs::Placements{});  // every tensor can be whole
        PlacementList list(given.begin(), given.end());
        for (const costs::Placements& placements : states) {
          if (is_finished(placements, {}) && placements != not_there()) list.push_back(kept(placements));
        }
        std::sort(list.begin(), list.end());
        entry->second = lists_.add(std::move(list));
      }
      kept_[i].list = entry->second;
    }
  }

  /// What an entry of uses starts from: its value as it is given, or kept. Without a list: the former.
  const PlacementVariable& kept_for(std::size_t uses) const {
    const bool is_behind_forward = impl_->uses[uses].phase == Phase::kBackward && uses > 0 &&
                                   impl_->uses[uses - 1].value == impl_->uses[uses].value;
    return kept_[is_behind_forward ? uses - 1 : uses];
  }

  std::int32_t given_list(costs::ValueRef value) const {
    return node_template(value.node).outputs[ix(value.output)].list;
  }

  // ---- what is saved for the backward ----

  void choose_saved_states() {
    using Key =
        std::tuple<std::vector<std::int32_t>, std::int32_t, const costs::RedistributeTable*, std::size_t, std::size_t>;
    std::map<Key, SavedVariable> known;
    for (std::size_t i = 0; i < impl_->uses.size(); ++i) {
      SavedVariable& saved = saved_.emplace_back();
      if (usage_.is_saved[i] == 0) continue;
      const costs::ValueRef value = impl_->uses[i].value;
      const std::vector<std::int32_t> lists = lists_around(impl_->uses[i]);
      const std::int32_t again = again_of(value.node);
      const std::int32_t made_list = again < 0 ? -1 : node_template(again).outputs[ix(value.output)].list;
      std::size_t num_before = 0;  // spans before the value is made again
      const std::vector<engine::Span> spans = saved_spans_of(i, again, num_before);
      const Key key(lists, made_list, &redistributor_.table(graph_.meta(value)), spans.size(), num_before);
      const auto [entry, is_new] = known.try_emplace(key, SavedVariable{});
      if (is_new) entry->second = make_saved(graph_.meta(value), lists, made_list, spans.size(), num_before);
      saved = entry->second;
      saved.spans = spans;
    }
  }

  std::int32_t again_of(std::int32_t node) const { return options_.again.empty() ? -1 : options_.again[ix(node)]; }

  /// When what is saved of a value is held: before node `again` has run, and from then on.
  std::vector<engine::Span> saved_spans_of(std::size_t uses, std::int32_t again, std::size_t& num_before) const {
    std::vector<engine::Span> before;
    std::vector<engine::Span> behind;
    const std::vector<std::int32_t>& points = impl_->time_points;
    const auto made =
        again < 0 ? points.end() : std::lower_bound(points.begin(), points.end(), timeline_.run_time(again));
    const auto cut = static_cast<std::int32_t>(made - points.begin());
    for (const engine::Span& span : usage_.saved[uses]) {
      if (span.start < cut) before.push_back({span.start, std::min(span.end, cut)});
      if (span.end > cut) behind.push_back({std::max(span.start, cut), span.end});
    }
    num_before = before.size();
    before.insert(before.end(), behind.begin(), behind.end());
    return before;
  }

  /// What is saved may be what the producer gives or a reader wants, or in more pieces than any of these.
  SavedVariable make_saved(const costs::TensorMeta& tensor, const std::vector<std::int32_t>& lists,
                           std::int32_t made_list, std::size_t num_spans, std::size_t num_before) {
    std::set<costs::Placements> kept = joined(lists);
    kept.erase(not_there());
    std::set<costs::Placements> cuts;
    for (const costs::Placements& cut : redistributor_.table(tensor).states()) {
      const auto is_made_by_cutting = [&](const costs::Placements& from) { return cuts_more(from, cut); };
      if (is_canonical(cut) && std::any_of(kept.begin(), kept.end(), is_made_by_cutting)) cuts.insert(cut);
    }
    kept.insert(cuts.begin(), cuts.end());
    struct State {
      costs::Placements kept;
      costs::Placements again;
      std::int32_t kind = 0;
    };
    std::vector<State> states;
    for (const costs::Placements& placements : kept) states.push_back({placements, not_there(), 0});
    if (made_list >= 0) {
      for (const costs::Placements& placements : lists_[made_list]) {
        if (placements != not_there()) states.push_back({not_there(), placements, 1});
      }
    }
    if (!options_.is_optional.empty()) states.push_back({not_there(), not_there(), 2});

    PlacementList as_read;
    engine::Domain domain;
    domain.costs.resize(states.size());
    domain.usage.resize(num_spans);
    std::vector<std::int32_t>& kinds = domain.levels.emplace_back();
    for (const State& state : states) {
      as_read.push_back(state.kind == 0 ? state.kept : state.again);
      kinds.push_back(state.kind);
      const std::int64_t bytes = state.kind == 2 ? 0 : costs::local_bytes(tensor, as_read.back(), problem_.mesh);
      for (std::size_t s = 0; s < num_spans; ++s)
        domain.usage[s].push_back(state.kind == 1 && s < num_before ? 0 : bytes);
    }
    for (std::vector<std::int32_t>& level : placement_levels(as_read, problem_.mesh.rank())) {
      domain.levels.push_back(std::move(level));
    }
    SavedVariable made;
    made.read = side(as_read);
    PlacementList one_side;
    for (const State& state : states) one_side.push_back(state.kept);
    made.kept = side(one_side);
    one_side.clear();
    for (const State& state : states) one_side.push_back(state.again);
    made.again = side(one_side);
    made.domain = domains_.add(std::move(domain));
    return made;
  }

  /// An end of edges for a variable whose values show these placements.
  EdgeEnd side(const PlacementList& shown) {
    const std::set<costs::Placements> states(shown.begin(), shown.end());
    engine::Projection projection;
    for (const costs::Placements& placements : shown) {
      projection.push_back(static_cast<std::int32_t>(std::distance(states.begin(), states.find(placements))));
    }
    return {-1, lists_.add(PlacementList(states.begin(), states.end())), projections_.add(std::move(projection))};
  }

  /// Whether `cut` is `whole` with shards where that is replicated: a local slice makes it.
  bool cuts_more(const costs::Placements& whole, const costs::Placements& cut) const {
    for (int dim = 0; dim < problem_.mesh.rank(); ++dim) {
      if (whole[dim] != cut[dim] && !(whole[dim].is_replicate() && cut[dim].is_shard())) return false;
    }
    return true;
  }

  // ---- links that take memory ----

  void make_pairs() {
    std::map<std::tuple<std::int32_t, std::int32_t, RowKinds, const costs::RedistributeTable*, bool, bool, bool>,
             PairVariable>
        known;
    for (const auto& [link, moved] : usage_.moved) {
      const auto [from, to] = lists_of(link);
      // A bound is needed of what is optional, not a plan: what its redistributions take is left out.
      if (may_be_missing(from) || may_be_missing(to)) continue;
      const PhaseUses& uses = impl_->uses[ix(link.first)];
      const costs::TensorMeta& tensor = graph_.meta(uses.value);
      const bool is_forward = uses.phase == Phase::kForward;
      const auto [entry, is_new] = known.try_emplace({from, to, row_kinds(moved), &redistributor_.table(tensor),
                                                      costs::is_row_major(tensor), moved.frees_source, is_forward},
                                                     PairVariable{});
      if (is_new) entry->second = make_pair(tensor, from, to, moved, is_forward);
      PairVariable pair = entry->second;
      if (pair.domain < 0) continue;
      pair.spans = moved.tensor;
      for (const auto& making : moved.making) pair.spans.insert(pair.spans.end(), making.begin(), making.end());
      pairs_.emplace(link, std::move(pair));
    }
  }

  /// What the rows of a link's usage are: nothing for the tensor itself, else of which buffers.
  using RowKinds = std::vector<std::optional<costs::Making>>;
  static RowKinds row_kinds(const PointUsage::Moved& moved) {
    RowKinds kinds(moved.tensor.size());
    for (std::size_t m = 0; m < moved.making.size(); ++m) {
      kinds.insert(kinds.end(), moved.making[m].size(), static_cast<costs::Making>(m));
    }
    return kinds;
  }

  bool may_be_missing(std::int32_t list) const {
    return std::binary_search(lists_[list].begin(), lists_[list].end(), not_there());
  }

  /// The placement lists at the ends of a link; -1: a tensor handed out as it came in.
  std::pair<std::int32_t, std::int32_t> lists_of(const PointUsage::Link& link) const {
    const auto& [group, use] = link;
    const PhaseUses& uses = impl_->uses[ix(group)];
    const std::int32_t given = given_list(uses.value);
    if (use == PointUsage::kKept) return {given, kept_[ix(group)].list};
    const std::int32_t kept = kept_for(ix(group)).list >= 0 ? kept_for(ix(group)).list : given;
    const SavedVariable& saved = saved_[ix(group)];
    if (use == PointUsage::kSaved) return {kept, saved.kept.list};
    const std::int32_t there = saved.domain >= 0 ? saved.read.list : kept;
    if (use == PointUsage::kCopy) return {there, copies_[ix(group)].list};
    return {copies_[ix(group)].list >= 0 ? copies_[ix(group)].list : there, wanted_list(uses.uses[ix(use)])};
  }

  /// Without a domain if no redistribution between the lists takes memory. What the forward makes of a kept tensor has
  /// no flight, whatever the link says.
  PairVariable make_pair(const costs::TensorMeta& tensor, std::int32_t from, std::int32_t to,
                         const PointUsage::Moved& moved, bool is_forward) {
    const costs::RedistributeTable& table = redistributor_.table(tensor);
    engine::Domain domain;
    const RowKinds kinds = row_kinds(moved);
    domain.usage.resize(kinds.size());
    engine::Projection row;
    engine::Projection col;
    bool takes_memory = false;
    const bool to_kept_or_given = has_kept(lists_[to]);
    for (std::size_t a = 0; a < lists_[from].size(); ++a) {
      for (std::size_t b = 0; b < lists_[to].size(); ++b) {
        const costs::Placements placements = unmarked(lists_[to][b]);
        const int source = table.index_of(unmarked(lists_[from][a]));
        const int target = table.index_of(placements);
        const Way found = way(lists_[from][a], lists_[to][b], to_kept_or_given, table.reaches(source, target));
        if (found == Way::kNone) continue;
        const bool is_moved = found == Way::kMoved;
        const bool is_at_once = is_forward && is_kept(lists_[from][a]);
        domain.costs.push_back(is_moved ? table.time_ps(source, target) : 0);
        row.push_back(static_cast<std::int32_t>(a));
        col.push_back(static_cast<std::int32_t>(b));
        const std::int64_t bytes = is_moved ? costs::local_bytes(tensor, placements, problem_.mesh) : 0;
        const std::vector<costs::RedistributeStep> steps = is_moved && kinds.size() > moved.tensor.size()
                                                               ? table.path(source, target)
                                                               : std::vector<costs::RedistributeStep>{};
        for (std::size_t s = 0; s < kinds.size(); ++s) {
          const costs::Making making = is_at_once ? costs::Making::kAtOnce : kinds[s].value_or(costs::Making::kAtOnce);
          domain.usage[s].push_back(
              kinds[s] ? costs::making_bytes(tensor, steps, problem_.mesh, moved.frees_source, making) : bytes);
          takes_memory |= domain.usage[s].back() > 0;
        }
      }
    }
    if (!takes_memory) return {};
    return {
        from, to, domains_.add(std::move(domain)), projections_.add(std::move(row)), projections_.add(std::move(col)),
        {},   -1};
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
      std::vector<engine::Span> spans;
    };
    std::vector<Entry> entries;
    impl_->node_variable.resize(graph_.nodes.size());
    const auto add = [&](std::int32_t producer, std::int32_t rank, std::int32_t domain, std::int32_t& variable,
                         std::vector<engine::Span> spans) {
      const Place place{segments.of_node[ix(producer)], positions[ix(producer)], node(producer).role == Role::kNone,
                        producer, rank};
      entries.push_back({place, domain, &variable, std::move(spans)});
    };
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<std::int32_t>(i);
      std::vector<engine::Span> spans;
      for (const PointUsage::Term& term : usage_.nodes[i]) spans.push_back(term.points);
      add(index, 0, node_template(index).domain, impl_->node_variable[i], std::move(spans));
    }
    std::int32_t rank = 0;
    const auto add_placements = [&](PlacementVariable& own, costs::ValueRef value,
                                    const std::vector<engine::Span>& spans) {
      if (own.list < 0) return;
      add(value.node, ++rank, list_domain(own.list, graph_.meta(value), spans.size()), own.variable, spans);
    };
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      add_placements(kept_[i], impl_->uses[i].value, usage_.kept[i]);
      SavedVariable& saved = saved_[i];
      if (saved.domain >= 0) add(impl_->uses[i].value.node, ++rank, saved.domain, saved.variable, saved.spans);
      add_placements(copies_[i], impl_->uses[i].value, usage_.copies[i]);
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      add_placements(outputs_[i], graph_.outputs[i].value, usage_.outputs[i]);
    }
    for (auto& [link, pair] : pairs_) {
      const PhaseUses& uses = impl_->uses[ix(link.first)];
      const bool has_reader = link.second >= 0 && uses.uses[ix(link.second)].input >= 0;
      add(has_reader ? uses.uses[ix(link.second)].node : uses.value.node, ++rank, pair.domain, pair.variable,
          pair.spans);
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.place.key() < b.place.key(); });
    for (Entry& entry : entries) {
      *entry.variable = static_cast<std::int32_t>(model_.network.variables.size());
      model_.network.variables.push_back({entry.domain, entry.place.segment, std::move(entry.spans)});
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

  /// With `num_spans` rows of the bytes of `tensor`.
  std::int32_t list_domain(std::int32_t list, const costs::TensorMeta& tensor, std::size_t num_spans) {
    const costs::RedistributeTable* table = num_spans > 0 ? &redistributor_.table(tensor) : nullptr;
    const auto [entry, is_new] = list_domains_.try_emplace({list, table, num_spans}, -1);
    if (is_new) {
      engine::Domain domain;
      domain.costs.resize(lists_[list].size());
      std::vector<std::int64_t> bytes;
      for (const costs::Placements& placements : lists_[list]) {
        bytes.push_back(placements == not_there() ? 0
                                                  : costs::local_bytes(tensor, unmarked(placements), problem_.mesh));
      }
      domain.usage.assign(num_spans, bytes);
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
      if (kept_[i].list >= 0) add_link(i, PointUsage::kKept, source, end_of(kept_[i]));
      if (kept_for(i).list >= 0) source = end_of(kept_for(i));
      if (saved_[i].domain >= 0) source = add_saved(i, source);
      if (copies_[i].list >= 0) {
        const EdgeEnd copy = end_of(copies_[i]);
        add_link(i, PointUsage::kCopy, source, copy);
        source = copy;
      }
      for (std::size_t u = 0; u < uses.uses.size(); ++u) {
        add_link(i, static_cast<std::int32_t>(u), source, use_end(uses.uses[u]));
      }
    }
  }

  /// Links what is saved to what it may come from; returns what the backward reads.
  EdgeEnd add_saved(std::size_t uses, const EdgeEnd& given) {
    SavedVariable& saved = saved_[uses];
    for (EdgeEnd* end : {&saved.kept, &saved.again, &saved.read}) end->variable = saved.variable;
    add_link(uses, PointUsage::kSaved, given, saved.kept);
    const costs::ValueRef value = impl_->uses[uses].value;
    const std::int32_t again = again_of(value.node);
    if (again >= 0) {
      const EdgeEnd made = producer_end({again, value.output});
      const std::int32_t handle = tables_.ask(graph_.meta(value), made.list, saved.again.list);
      model_.network.edges.push_back({made.variable, saved.variable, handle, made.projection, saved.again.projection});
    }
    return saved.read;
  }

  void add_link(std::size_t uses, std::int32_t use, const EdgeEnd& from, const EdgeEnd& to) {
    // A tensor handed out as it came in is in its own placement.
    if (from.variable == to.variable) return;
    ModelNetwork::Impl::Link& link = impl_->links.emplace_back();
    link = {static_cast<std::int32_t>(uses), use, from, to};
    const auto pair = pairs_.find({static_cast<std::int32_t>(uses), use});
    if (pair == pairs_.end()) {
      const std::int32_t handle = tables_.ask(graph_.meta(impl_->uses[uses].value), from.list, to.list);
      link.edge = static_cast<std::int32_t>(model_.network.edges.size());
      model_.network.edges.push_back({from.variable, to.variable, handle, from.projection, to.projection});
    } else {
      link.pair_variable = pair->second.variable;
      link.pair_from = pair->second.from;
      link.pair_to = pair->second.to;
      pair_edges_.push_back({from.variable, pair->second.variable, static_cast<std::int32_t>(lists_[from.list].size()),
                             from.projection, pair->second.from});
      pair_edges_.push_back({pair->second.variable, to.variable, static_cast<std::int32_t>(lists_[to.list].size()),
                             pair->second.to, to.projection});
    }
  }

  /// Both ends of such an edge must be in the same one of its states.
  void add_pair_edges() {
    engine::CostNetwork& network = model_.network;
    std::map<std::int32_t, std::int32_t> table_of_size;
    for (engine::Edge edge : pair_edges_) {
      const std::int32_t size = edge.table;
      const auto [table, is_new] = table_of_size.try_emplace(size, static_cast<std::int32_t>(network.tables.size()));
      if (is_new) network.tables.push_back(equality_table(size));
      edge.table = table->second;
      network.edges.push_back(edge);
    }
  }

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
    add_pair_edges();
    add_ties();
    network.domains = domains_.take();
    network.projections = projections_.take();
    if (problem_.pins.memory_limit_bytes > 0) network.usage_limit = problem_.pins.memory_limit_bytes;
    for (const std::size_t t : template_of_) impl_->choices.push_back(templates_[t].choices);
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
  const BuildOptions& options_;
  Timeline timeline_;
  PlacementLists lists_;
  engine::Interner<engine::Domain, engine::HashDomain> domains_;
  engine::Interner<engine::Projection, HashProjection> projections_;
  EdgeTables tables_;
  std::vector<Template> templates_;
  std::vector<std::size_t> template_of_;    // per node
  std::vector<PlacementVariable> outputs_;  // per graph output
  std::vector<PlacementVariable> copies_;   // per entry of uses
  std::vector<PlacementVariable> kept_;     // per entry of uses, of the forward's
  std::vector<SavedVariable> saved_;        // per entry of uses
  std::map<PointUsage::Link, PairVariable> pairs_;
  std::vector<engine::Edge> pair_edges_;  // with the number of states in place of the table
  std::map<std::tuple<std::int32_t, const costs::RedistributeTable*, std::size_t>, std::int32_t> list_domains_;
  PointUsage usage_;
  std::shared_ptr<ModelNetwork::Impl> impl_;
  ModelNetwork model_;
};

}  // namespace

ModelNetwork build_network(const Problem& problem, const costs::Redistributor& redistributor,
                           const BuildOptions& options) {
  return Builder(problem, redistributor, options).run();
}

bool runs(const ModelNetwork& model, const engine::Assignment& assignment, std::int32_t node) {
  const std::int32_t value = assignment[ix(model.impl->node_variable[ix(node)])];
  return value + 1 < static_cast<std::int32_t>(model.impl->choices[ix(node)]->strategies.size());
}

}  // namespace autopar::partition
