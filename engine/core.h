#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/cost_network.h"
#include "engine/min_minus.h"
#include "engine/repeats.h"
#include "engine/usage.h"

namespace autopar::engine {

/// One end of an edge.
struct CoreEnd {
  std::int32_t variable = -1;
  std::shared_ptr<const Projection> state_of;  ///< state of each live value
  std::shared_ptr<const Projection> states;    ///< the network's states that the core's stand for, ascending
};

struct CoreEdge {
  CoreEnd u;
  CoreEnd v;
  std::shared_ptr<const Table> table;         ///< rows: u's live states; the network's own where all live
  std::shared_ptr<const CoarseTable> coarse;  ///< of the same states; none for a small table
  std::int32_t source = -1;                   ///< index into the edges that the core was made of

  /// Of live values of both ends.
  Cost cost(std::int32_t x_u, std::int32_t x_v) const {
    return table->at((*u.state_of)[static_cast<std::size_t>(x_u)], (*v.state_of)[static_cast<std::size_t>(x_v)]);
  }
};

struct CoreVariable {
  std::vector<Cost> costs;          ///< per live value, with the edges to decided neighbours folded in
  VariableUsage usage;              ///< of the live values
  std::vector<std::int32_t> edges;  ///< in ascending order of the other end
};

/// A network restricted to live values, in a form made for sweeps: variables with one live value are folded away,
/// tables hold live states only, equal tables are shared, and time points that another one implies are dropped.
class Core {
 public:
  /// Tables that `like` has, if given, are shared with it.
  Core(const CostNetwork& network, const LiveValues& live, const Core* like = nullptr);
  /// Of `shortened`, the network's short form, without usage.
  Core(const CostNetwork& network, const LiveValues& live, const ShortNetwork& shortened);

  const std::vector<CoreVariable>& variables() const { return variables_; }
  const std::vector<CoreEdge>& edges() const { return edges_; }  ///< ascending by source
  /// Of all edges: what one sweep reads.
  std::size_t table_entries() const { return table_entries_; }
  /// Whether some edge has a coarse table.
  bool is_coarse() const { return is_coarse_; }
  /// Cost that no choice changes.
  Cost constant() const { return constant_; }
  /// What is left of the limit at each usage point for the variables that are still open. Negative: nothing fits.
  const std::vector<std::int64_t>& capacity() const { return capacity_; }
  const std::vector<std::int32_t>& times() const { return times_; }  ///< of the usage points, ascending

  /// The end of `edge` at `variable`, and the other one.
  const CoreEnd& end(std::int32_t edge, std::int32_t variable) const;
  const CoreEnd& other_end(std::int32_t edge, std::int32_t variable) const;

 private:
  void build(const CostNetwork& network, const LiveValues& live, const std::vector<Edge>& edges, const Core* like);
  struct LiveTable {
    std::shared_ptr<const Table> exact;
    std::shared_ptr<const CoarseTable> coarse;
  };
  const LiveTable& restrict_table(const CostNetwork& network, std::int32_t table, const Projection& rows,
                                  const Projection& cols, const Core* like);
  void add_edge(const CostNetwork& network, const Edge& edge, std::int32_t source, const LiveValues& live,
                const Core* like);
  void set_usage(const CostNetwork& network, const LiveValues& live);

  std::vector<CoreVariable> variables_;
  std::vector<CoreEdge> edges_;
  std::size_t table_entries_ = 0;
  bool is_coarse_ = false;
  Cost constant_ = 0;
  std::vector<std::int64_t> capacity_;
  std::vector<std::int32_t> times_;

  /// (projection, live values) -> compacted states and the original states they stand for.
  struct Compacted {
    std::shared_ptr<const Projection> state_of;
    std::shared_ptr<const Projection> states;
  };
  const Compacted& compact(const CostNetwork& network, std::int32_t projection, const std::vector<std::int32_t>& live);
  std::map<std::pair<std::int32_t, std::vector<std::int32_t>>, Compacted> compacted_;
  std::map<std::vector<std::int32_t>, LiveTable> tables_;
};

}  // namespace autopar::engine
