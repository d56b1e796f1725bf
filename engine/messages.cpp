#include "engine/messages.h"

#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/memory.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

#include "engine/bytes.h"

namespace autopar::engine {

// Found by cereal through argument-dependent lookup.

template <class Archive>
void serialize(Archive& archive, Domain& d) {
  archive(d.costs, d.usage, d.levels);
}

template <class Archive>
void serialize(Archive& archive, Table& t) {
  archive(t.rows, t.cols, t.costs);
}

template <class Archive>
void save(Archive& archive, const Tables& tables) {
  archive(static_cast<std::uint64_t>(tables.size()));
  for (std::size_t t = 0; t < tables.size(); ++t) archive(tables[t]);
}

template <class Archive>
void load(Archive& archive, Tables& tables) {
  std::uint64_t size = 0;
  archive(size);
  for (; size > 0; --size) {
    Table table;
    archive(table);
    tables.push_back(std::move(table));
  }
}

template <class Archive>
void serialize(Archive& archive, Span& s) {
  archive(s.start, s.end);
}

template <class Archive>
void serialize(Archive& archive, Variable& v) {
  archive(v.domain, v.segment, v.spans);
}

template <class Archive>
void serialize(Archive& archive, Edge& e) {
  archive(e.u, e.v, e.table, e.project_u, e.project_v);
}

template <class Archive>
void serialize(Archive& archive, CostNetwork& n) {
  archive(n.domains, n.tables, n.projections, n.variables, n.edges, n.usage_limit, n.base_usage);
}

template <class Archive>
void serialize(Archive& archive, Guide& g) {
  archive(g.prices, g.reduced_costs, g.gap, g.bound, g.rounding);
}

template <class Archive>
void serialize(Archive& archive, Cut::Term& t) {
  archive(t.variable, t.weights);
}

template <class Archive>
void serialize(Archive& archive, Cut& c) {
  archive(c.terms, c.capacity);
}

template <class Archive>
void serialize(Archive& archive, Join& j) {
  archive(j.u, j.v, j.values);
}

template <class Archive>
void serialize(Archive& archive, NewsMessage& m) {
  archive(m.kind, m.live, m.cuts, m.joins, m.guide, m.assignment, m.status);
}

template <class Archive>
void serialize(Archive& archive, Block::Variable& v) {
  archive(v.costs, v.prices, v.usage, v.levels, v.keep);
}

template <class Archive>
void serialize(Archive& archive, Block::Edge& e) {
  archive(e.u, e.v, e.costs);
}

template <class Archive>
void serialize(Archive& archive, Block& b) {
  archive(b.variables, b.edges, b.capacity, b.gap, b.capacity_price, b.outside_price);
}

template <class Archive>
void serialize(Archive& archive, BlockOptions& o) {
  archive(o.max_rows, o.max_work, o.max_depth);
}

template <class Archive>
void serialize(Archive& archive, Relation::Field& f) {
  archive(f.variable, f.shift, f.bits);
}

template <class Archive>
void serialize(Archive& archive, Relation::Row& r) {
  archive(r.key, r.excess, r.price);
}

template <class Archive>
void serialize(Archive& archive, Relation& r) {
  archive(r.scope, r.rows, r.usage, r.num_points, r.least_excess, r.most_price);
}

template <class Archive>
void serialize(Archive& archive, TaskMessage& m) {
  archive(m.kind, m.id, m.status, m.body);
}

template <class Archive>
void serialize(Archive& archive, ResultMessage& m) {
  archive(m.id, m.seconds, m.body);
}

template <class Archive>
void serialize(Archive& archive, BlockTask& t) {
  archive(t.seconds_left, t.options, t.block);
}

template <class Archive>
void save(Archive& archive, const BlockResult& r) {
  const bool has_relation = r.relation != nullptr;
  archive(r.outcome, r.branch_nodes, r.widest, has_relation);
  if (has_relation) archive(*r.relation);
}

template <class Archive>
void load(Archive& archive, BlockResult& r) {
  bool has_relation = false;
  archive(r.outcome, r.branch_nodes, r.widest, has_relation);
  if (!has_relation) return;
  auto relation = std::make_shared<Relation>();
  archive(*relation);
  r.relation = std::move(relation);
}

template <class Archive>
void serialize(Archive& archive, TaskTrace& t) {
  archive(t.name, t.round, t.rank, t.start_s, t.seconds, t.sent, t.received);
}

template <class Archive>
void serialize(Archive& archive, Timing& t) {
  archive(t.seconds, t.total_s, t.tasks, t.branch_nodes, t.messages, t.bytes, t.rounds, t.trace);
}

template <class Archive>
void serialize(Archive& archive, PresolveCounts& c) {
  archive(c.dead_values, c.dominated_values, c.contracted, c.eliminated, c.merged_edges, c.folded_edges, c.time_points);
}

template <class Archive>
void serialize(Archive& archive, Stats& s) {
  archive(s.presolve_s, s.bound_s, s.search_s, s.presolve, s.variables, s.variables_after_presolve,
          s.values_after_fixing, s.sweeps, s.segments, s.segment_classes, s.tasks, s.branch_nodes);
}

template <class Archive>
void serialize(Archive& archive, Solution& s) {
  archive(s.status, s.assignment, s.cost, s.bound, s.stats);
}

template <class Archive>
void serialize(Archive& archive, SolveRecord::Entry& e) {
  archive(e.solution, e.was_late, e.was_cut_short);
}

template <class Archive>
void serialize(Archive& archive, SolveRecord& r) {
  archive(r.entries, r.ended_late);
}

namespace {

using Input = cereal::PortableBinaryInputArchive;
using Output = cereal::PortableBinaryOutputArchive;

template <class Message>
Message read_message(const std::string& bytes) {
  Message message;
  from_bytes<Input>(bytes, message);
  return message;
}

}  // namespace

std::string pack(const CostNetwork& network) { return to_bytes<Output>(network); }
std::string pack(const NewsMessage& message) { return to_bytes<Output>(message); }
std::string pack(const TaskMessage& message) { return to_bytes<Output>(message); }
std::string pack(const ResultMessage& message) { return to_bytes<Output>(message); }
std::string pack(const BlockTask& task) { return to_bytes<Output>(task); }
std::string pack(const BlockResult& result) { return to_bytes<Output>(result); }
std::string pack(const Timing& timing) { return to_bytes<Output>(timing); }
std::string pack(const Solution& solution) { return to_bytes<Output>(solution); }
std::string pack(const SolveRecord& record) { return to_bytes<Output>(record); }
CostNetwork unpack_network(const std::string& bytes) { return read_message<CostNetwork>(bytes); }
NewsMessage unpack_news(const std::string& bytes) { return read_message<NewsMessage>(bytes); }
TaskMessage unpack_task(const std::string& bytes) { return read_message<TaskMessage>(bytes); }
ResultMessage unpack_result(const std::string& bytes) { return read_message<ResultMessage>(bytes); }
BlockTask unpack_block_task(const std::string& bytes) { return read_message<BlockTask>(bytes); }
BlockResult unpack_block_result(const std::string& bytes) { return read_message<BlockResult>(bytes); }
Timing unpack_timing(const std::string& bytes) { return read_message<Timing>(bytes); }
Solution unpack_solution(const std::string& bytes) { return read_message<Solution>(bytes); }
SolveRecord unpack_record(const std::string& bytes) { return read_message<SolveRecord>(bytes); }

}  // namespace autopar::engine
