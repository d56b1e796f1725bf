#include "engine/messages.h"

#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/memory.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <sstream>

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
  archive(m.last, m.status, m.id, m.seconds_left, m.options, m.block);
}

template <class Archive>
void save(Archive& archive, const ResultMessage& m) {
  const bool has_relation = m.result.relation != nullptr;
  archive(m.id, m.result.outcome, m.result.branch_nodes, m.result.widest, has_relation);
  if (has_relation) archive(*m.result.relation);
}

template <class Archive>
void load(Archive& archive, ResultMessage& m) {
  bool has_relation = false;
  archive(m.id, m.result.outcome, m.result.branch_nodes, m.result.widest, has_relation);
  if (!has_relation) return;
  auto relation = std::make_shared<Relation>();
  archive(*relation);
  m.result.relation = std::move(relation);
}

namespace {

template <class Message>
std::string to_bytes(const Message& message) {
  std::ostringstream stream;
  cereal::PortableBinaryOutputArchive archive(stream);
  archive(message);
  return std::move(stream).str();
}

template <class Message>
Message from_bytes(const std::string& bytes) {
  std::istringstream stream(bytes);
  cereal::PortableBinaryInputArchive archive(stream);
  Message message;
  archive(message);
  return message;
}

}  // namespace

std::string pack(const CostNetwork& network) { return to_bytes(network); }
std::string pack(const NewsMessage& message) { return to_bytes(message); }
std::string pack(const TaskMessage& message) { return to_bytes(message); }
std::string pack(const ResultMessage& message) { return to_bytes(message); }
CostNetwork unpack_network(const std::string& bytes) { return from_bytes<CostNetwork>(bytes); }
NewsMessage unpack_news(const std::string& bytes) { return from_bytes<NewsMessage>(bytes); }
TaskMessage unpack_task(const std::string& bytes) { return from_bytes<TaskMessage>(bytes); }
ResultMessage unpack_result(const std::string& bytes) { return from_bytes<ResultMessage>(bytes); }

}  // namespace autopar::engine
