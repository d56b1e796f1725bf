#include "engine/pieces.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "engine/index.h"

namespace autopar::engine {
namespace {

std::int32_t position(const std::vector<std::int32_t>& sorted, std::int32_t value) {
  return static_cast<std::int32_t>(std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin());
}

}  // namespace

Pieces::Pieces(const CostNetwork& network, const LiveValues& live, const Dual& dual, Cost gap)
    : network_(network), live_(live), dual_(dual), core_(dual.core()), gap_(gap) {
  find_pieces();
  for (std::size_t v = 0; v < core_.variables().size(); ++v) {
    Cost most = 0;
    if (core_.variables()[v].usage.empty()) continue;
    for (std::size_t x = 0; x < core_.variables()[v].costs.size(); ++x) {
      most = std::max(most, dual.usage_price(static_cast<std::int32_t>(v), static_cast<std::int32_t>(x)));
    }
    most_price_ += most;
  }
  group_pieces();
  for (const Group& group : groups_) blocks_.push_back(make_block(group));
}

void Pieces::find_pieces() {
  const std::size_t count = core_.variables().size();
  const auto segment = [&](std::int32_t v) { return network_.variables[ix(v)].segment; };
  std::vector<char> is_separator(count, 0);
  for (const CoreEdge& edge : core_.edges()) {
    if (segment(edge.u.variable) == segment(edge.v.variable)) continue;
    is_separator[ix(edge.u.variable)] = is_separator[ix(edge.v.variable)] = 1;
  }
  for (std::size_t e = 0; e < core_.edges().size(); ++e) {
    const CoreEdge& edge = core_.edges()[e];
    if (is_separator[ix(edge.u.variable)] && is_separator[ix(edge.v.variable)]) {
      separator_edges_.push_back(static_cast<std::int32_t>(e));
    }
  }
  std::vector<char> seen(count, 0);
  for (std::size_t v = 0; v < count; ++v) {
    if (core_.variables()[v].costs.size() < 2) continue;
    if (is_separator[v]) separators_.push_back(static_cast<std::int32_t>(v));
    if (is_separator[v] || seen[v]) continue;
    Piece piece;
    std::vector<std::int32_t> open{static_cast<std::int32_t>(v)};
    seen[v] = 1;
    while (!open.empty()) {
      const std::int32_t here = open.back();
      open.pop_back();
      piece.variables.push_back(here);
      for (std::int32_t edge : core_.variables()[ix(here)].edges) {
        piece.edges.push_back(edge);
        const std::int32_t there = core_.other_end(edge, here).variable;
        if (is_separator[ix(there)]) piece.variables.push_back(there);
        if (is_separator[ix(there)] || seen[ix(there)]) continue;
        seen[ix(there)] = 1;
        open.push_back(there);
      }
    }
    for (std::vector<std::int32_t>* list : {&piece.variables, &piece.edges}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    for (std::int32_t inside : piece.variables) piece.keep.push_back(is_separator[ix(inside)]);
    pieces_.push_back(std::move(piece));
  }
}

std::vector<std::int64_t> Pieces::signature(const Piece& piece) const {
  std::vector<std::int64_t> facts;
  const auto list = [&facts](const auto& values) {
    facts.push_back(static_cast<std::int64_t>(values.size()));
    facts.insert(facts.end(), values.begin(), values.end());
  };
  list(piece.keep);
  for (std::size_t i = 0; i < piece.variables.size(); ++i) {
    const CoreVariable& variable = core_.variables()[ix(piece.variables[i])];
    facts.push_back(static_cast<std::int64_t>(variable.costs.size()));
    if (piece.keep[i]) continue;
    list(variable.costs);
    list(variable.usage.amounts);
    for (const VariableUsage::Piece& uses : variable.usage.pieces) {
      facts.push_back(uses.first);
      facts.push_back(uses.last);
    }
  }
  // The core shares equal tables and projections, so their addresses stand for their content.
  for (std::int32_t e : piece.edges) {
    const CoreEdge& edge = core_.edges()[ix(e)];
    facts.push_back(position(piece.variables, edge.u.variable));
    facts.push_back(position(piece.variables, edge.v.variable));
    facts.push_back(reinterpret_cast<std::intptr_t>(edge.table.get()));
    facts.push_back(reinterpret_cast<std::intptr_t>(edge.u.state_of.get()));
    facts.push_back(reinterpret_cast<std::intptr_t>(edge.v.state_of.get()));
  }
  return facts;
}

void Pieces::group_pieces() {
  // Sharing widens what a block must find by the members' spread; beyond a few gaps it would cost more than it saves.
  const Cost most_spread = 2 * gap_;
  std::map<std::vector<std::int64_t>, std::vector<std::size_t>> classes;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    std::vector<std::size_t>& groups = classes[signature(pieces_[p])];
    bool joined = false;
    for (std::size_t g : groups) {
      Shift shift = shift_between(pieces_[ix(groups_[g].members[0])], pieces_[p]);
      if (spread(shift) > most_spread) continue;
      groups_[g].members.push_back(static_cast<std::int32_t>(p));
      groups_[g].shifts.push_back(std::move(shift));
      joined = true;
      break;
    }
    if (joined) continue;
    groups.push_back(groups_.size());
    groups_.push_back({{static_cast<std::int32_t>(p)}, {shift_between(pieces_[p], pieces_[p])}});
  }
  num_classes_ = classes.size();
}

// Over its inner variables and edges, a piece's moved costs sum to the original costs less what its edges moved to
// separators, by their values, and less what its inner variables gave to the constant.
Pieces::Shift Pieces::shift_between(const Piece& first, const Piece& member) const {
  Shift shift;
  shift.by_value.resize(first.variables.size());
  for (std::size_t i = 0; i < first.variables.size(); ++i) {
    if (first.keep[i]) {
      shift.by_value[i].assign(core_.variables()[ix(first.variables[i])].costs.size(), 0);
    } else {
      shift.constant += dual_.taken(first.variables[i]) - dual_.taken(member.variables[i]);
    }
  }
  for (std::size_t e = 0; e < first.edges.size(); ++e) {
    const CoreEdge& edge = core_.edges()[ix(first.edges[e])];
    for (const CoreEnd* end : {&edge.u, &edge.v}) {
      const auto i = ix(position(first.variables, end->variable));
      if (!first.keep[i]) continue;
      const std::span<const Cost> mine = dual_.message(first.edges[e], end->variable);
      const std::span<const Cost> theirs = dual_.message(member.edges[e], member.variables[i]);
      for (std::size_t x = 0; x < shift.by_value[i].size(); ++x) {
        const std::size_t state = ix((*end->state_of)[x]);
        shift.by_value[i][x] += mine[state] - theirs[state];
      }
    }
  }
  return shift;
}

Cost Pieces::spread(const Shift& shift) const {
  Cost low = shift.constant;
  Cost high = shift.constant;
  for (const std::vector<Cost>& values : shift.by_value) {
    if (values.empty()) continue;
    low += *std::min_element(values.begin(), values.end());
    high += *std::max_element(values.begin(), values.end());
  }
  return std::max(-low, high);
}

Block::Variable Pieces::block_variable(const Piece& piece, std::size_t i) const {
  const std::int32_t v = piece.variables[i];
  const CoreVariable& core = core_.variables()[ix(v)];
  Block::Variable variable;
  variable.keep = piece.keep[i] != 0;
  for (std::size_t x = 0; x < core.costs.size(); ++x) {
    variable.costs.push_back(dual_.node_cost(v, static_cast<std::int32_t>(x)));
    if (!core.usage.empty()) variable.prices.push_back(dual_.usage_price(v, static_cast<std::int32_t>(x)));
  }
  const std::size_t points = core_.capacity().size();
  for (std::size_t x = 0; !core.usage.empty() && x < core.costs.size(); ++x) {
    std::vector<std::int64_t> amounts(points, 0);
    core.usage.add(static_cast<std::int32_t>(x), 1, amounts);
    variable.usage.insert(variable.usage.end(), amounts.begin(), amounts.end());
  }
  for (const std::vector<std::int32_t>& level : network_.domain(v).levels) {
    std::vector<std::int32_t>& groups = variable.levels.emplace_back();
    for (std::int32_t x : live_[ix(v)]) groups.push_back(level[ix(x)]);
  }
  return variable;
}

Block::Edge Pieces::block_edge(std::int32_t edge, std::int32_t u, std::int32_t v) const {
  const CoreEdge& e = core_.edges()[ix(edge)];
  Block::Edge out{u, v, {}};
  out.costs.reserve(e.u.state_of->size() * e.v.state_of->size());
  for (std::int32_t row : *e.u.state_of) {
    for (std::int32_t col : *e.v.state_of) out.costs.push_back(dual_.edge_cost(edge, row, col));
  }
  return out;
}

Block Pieces::make_block(const Group& group) const {
  const Piece& first = pieces_[ix(group.members[0])];
  Block block;
  block.capacity = core_.capacity();
  block.gap = gap_;
  block.capacity_price = dual_.price_of_capacity();
  block.outside_price = most_price_;
  Cost least_constant = 0;
  for (const Shift& shift : group.shifts) least_constant = std::min(least_constant, shift.constant);
  block.gap -= least_constant;
  for (std::size_t i = 0; i < first.variables.size(); ++i) {
    Block::Variable variable = block_variable(first, i);
    if (variable.keep) {
      // What a value of this separator costs the cheapest member: its own node cost and the member's shift.
      for (std::size_t x = 0; x < variable.costs.size(); ++x) {
        for (std::size_t m = 0; m < group.members.size(); ++m) {
          const std::int32_t v = pieces_[ix(group.members[m])].variables[i];
          const Cost cost = dual_.node_cost(v, static_cast<std::int32_t>(x)) + group.shifts[m].by_value[i][x];
          variable.costs[x] = std::min(variable.costs[x], cost);
        }
      }
      const Cost least = *std::min_element(variable.costs.begin(), variable.costs.end());
      for (Cost& cost : variable.costs) cost -= least;
      block.gap -= least;
    }
    block.variables.push_back(std::move(variable));
  }
  for (std::int32_t e : first.edges) {
    const CoreEdge& edge = core_.edges()[ix(e)];
    block.edges.push_back(
        block_edge(e, position(first.variables, edge.u.variable), position(first.variables, edge.v.variable)));
  }
  return block;
}

std::shared_ptr<const Relation> Pieces::member_relation(const Relation& shared, const Piece& piece, const Shift& shift,
                                                        std::int32_t tag) const {
  auto relation = std::make_shared<Relation>();
  relation->tag = tag;
  relation->num_points = shared.num_points;
  relation->scope = shared.scope;
  for (Relation::Field& field : relation->scope) {
    field.variable = position(separators_, piece.variables[ix(field.variable)]);
  }
  relation->least_excess = shared.rows.empty() ? 0 : kForbidden;
  for (std::size_t i = 0; i < shared.rows.size(); ++i) {
    Relation::Row row = shared.rows[i];
    row.excess += shift.constant;
    for (const Relation::Field& field : shared.scope) {
      row.excess += shift.by_value[ix(field.variable)][ix(field.value(row.key))];
    }
    if (row.excess > gap_) continue;
    relation->least_excess = std::min(relation->least_excess, row.excess);
    relation->most_price = std::max(relation->most_price, row.price);
    relation->rows.push_back(row);
    relation->usage.insert(relation->usage.end(), shared.usage_of(i), shared.usage_of(i) + shared.num_points);
  }
  return relation;
}

Block Pieces::block_within(std::size_t block, Cost gap) const {
  Block within = blocks_[block];
  within.gap -= gap_ - gap;
  return within;
}

std::vector<Cost> Pieces::least_excess(const std::vector<Found>& found) const {
  std::vector<Cost> least(pieces_.size(), 0);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (found[g].searched < 0) continue;
    for (std::size_t m = 0; m < groups_[g].members.size(); ++m) {
      const std::int32_t piece = groups_[g].members[m];
      const auto relation = member_relation(*found[g].relation, pieces_[ix(piece)], groups_[g].shifts[m], piece);
      const Cost beyond = found[g].searched + 1;
      least[ix(piece)] = relation->rows.empty() ? beyond : std::min(relation->least_excess, beyond);
    }
  }
  return least;
}

std::vector<Cost> Pieces::needed(const std::vector<Cost>& least, Cost gap) const {
  Cost total = 0;
  for (Cost excess : least) total = add(total, excess);
  std::vector<Cost> gaps;
  for (const Group& group : groups_) {
    Cost most = 0;
    for (std::int32_t piece : group.members) most = std::max(most, least[ix(piece)]);
    gaps.push_back(gap - (total - most));
  }
  return gaps;
}

Pieces::Merged Pieces::merge(const std::vector<Found>& found, Cost gap, const BlockOptions& options,
                             const Deadline& deadline) const {
  Block block;
  block.capacity = core_.capacity();
  block.gap = gap;
  block.capacity_price = dual_.price_of_capacity();
  const Piece all{separators_, std::vector<char>(separators_.size(), 0), separator_edges_};
  for (std::size_t i = 0; i < separators_.size(); ++i) block.variables.push_back(block_variable(all, i));
  for (std::int32_t e : separator_edges_) {
    const CoreEdge& edge = core_.edges()[ix(e)];
    block.edges.push_back(
        block_edge(e, position(separators_, edge.u.variable), position(separators_, edge.v.variable)));
  }
  std::vector<std::shared_ptr<const Relation>> given(pieces_.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t m = 0; m < groups_[g].members.size(); ++m) {
      const std::int32_t piece = groups_[g].members[m];
      given[ix(piece)] = member_relation(*found[g].relation, pieces_[ix(piece)], groups_[g].shifts[m], piece);
    }
  }
  Merged merged;
  merged.values.assign(core_.variables().size(), 0);
  if (block.variables.empty() && given.empty()) {
    merged.found = true;
    return merged;
  }
  const BlockResult joined = eliminate(block, given, options, deadline);
  merged.outcome = joined.outcome;
  if (joined.outcome == BlockResult::Outcome::kTooLarge && joined.widest >= 0)
    merged.widest = separators_[ix(joined.widest)];
  if (joined.outcome != BlockResult::Outcome::kDone || joined.relation->rows.empty()) return merged;
  // Rows of an empty key are in order of cost: the first is the best.
  std::vector<std::int32_t> chosen(separators_.size(), 0);
  std::vector<std::int32_t> rows(pieces_.size(), -1);
  trace(*joined.relation, 0, chosen, rows);
  for (std::size_t i = 0; i < separators_.size(); ++i) merged.values[ix(separators_[i])] = chosen[i];
  merged.found = true;
  for (std::size_t p = 0; p < pieces_.size() && merged.found; ++p) {
    merged.found = fill_inner(pieces_[p], *given[p], ix(rows[p]), options, deadline, merged.values);
    if (!merged.found) merged.outcome = BlockResult::Outcome::kStopped;
  }
  return merged;
}

// With its separators decided a piece is small: search it again for the row that the merge used.
bool Pieces::fill_inner(const Piece& piece, const Relation& relation, std::size_t row, const BlockOptions& options,
                        const Deadline& deadline, std::vector<std::int32_t>& values) const {
  Block block;
  block.capacity = core_.capacity();
  block.gap = relation.rows[row].excess;
  for (std::size_t i = 0; i < piece.variables.size(); ++i) {
    Block::Variable variable = block_variable(piece, i);
    if (variable.keep) {
      variable.costs.assign(variable.costs.size(), kForbidden);
      variable.costs[ix(values[ix(piece.variables[i])])] = 0;
    }
    block.variables.push_back(std::move(variable));
  }
  for (std::int32_t e : piece.edges) {
    const CoreEdge& edge = core_.edges()[ix(e)];
    block.edges.push_back(
        block_edge(e, position(piece.variables, edge.u.variable), position(piece.variables, edge.v.variable)));
  }
  const std::vector<std::int64_t> usage(relation.usage_of(row), relation.usage_of(row) + relation.num_points);
  const Cost cost = relation.rows[row].excess - relation.rows[row].price;
  const std::vector<std::int32_t> inner = find_values(block, cost, usage, options, deadline);
  for (std::size_t v = 0; v < inner.size(); ++v) {
    if (!piece.keep[v]) values[ix(piece.variables[v])] = inner[v];
  }
  if (!inner.empty() || deadline.passed()) return !inner.empty();
  throw std::logic_error("pieces: the row that the merge used was not found again");
}

}  // namespace autopar::engine
