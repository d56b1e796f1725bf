#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/cost_network.h"

namespace autopar::engine {

/// Makes a network smaller without changing its optimum:
/// - values that cannot be part of any allowed assignment go;
/// - a value goes if another one of its variable is at least as good whatever the neighbours choose and uses no more
///   (dead-end elimination: Goldstein 1994, for protein side chains);
/// - variables without usage and with at most two neighbours are eliminated (bucket elimination, Dechter 1999), which
///   leaves a table between the neighbours; edges between the same two variables become one.
/// Every step is memoised by the shared tables it reads, so repeated layers are reduced once and stay alike.
class Presolve {
 public:
  explicit Presolve(const CostNetwork& network);

  /// True if some variable has no value left.
  bool infeasible() const { return infeasible_; }
  /// What remains. Its optimum plus constant() is the optimum of the original network.
  const CostNetwork& reduced() const { return net_; }
  Cost constant() const { return constant_; }

  /// The best assignment of the original network that agrees with `reduced` on what remained.
  Assignment restore(const Assignment& reduced) const;

 private:
  /// An edge seen from one of its ends.
  struct View {
    std::int32_t edge = -1;
    std::int32_t other = -1;
    std::int32_t table = -1;
    std::int32_t self_project = -1;
    std::int32_t other_project = -1;
    bool self_is_row = true;
  };
  /// A variable that was eliminated: its cheapest value follows from its neighbours' values.
  struct Eliminated {
    std::int32_t variable = -1;
    std::int32_t domain = -1;
    std::int32_t values = -1;
    std::array<View, 2> views;
    std::array<std::int32_t, 2> other_values{-1, -1};
    int num_views = 0;
  };
  using Key = std::vector<std::int32_t>;

  std::vector<View> views(std::int32_t variable) const;
  View view(std::int32_t edge, std::int32_t variable) const;
  Cost cost(const View& view, std::int32_t self_state, std::int32_t other_state) const;
  std::int32_t num_states(std::int32_t table, bool rows) const;

  void run();
  bool reduce_variable(std::int32_t variable);
  bool eliminate(std::int32_t variable);
  void eliminate_leaf(std::int32_t variable, const View& view);
  bool eliminate_link(std::int32_t variable, const View& a, const View& b);
  void merge_edges(std::int32_t first, std::int32_t second);
  bool remove_values(std::int32_t variable);
  /// The costs of an edge as a variable meets them: per value a row over the neighbour's states.
  struct Rows {
    const Projection* row_of = nullptr;
    std::size_t width = 0;
    std::vector<Cost> costs;
    const Cost* row(std::int32_t value) const {
      return costs.data() + static_cast<std::size_t>((*row_of)[static_cast<std::size_t>(value)]) * width;
    }
  };
  Rows rows_of(const View& view) const;
  std::vector<std::int32_t> surviving_values(std::int32_t variable, const std::vector<View>& views) const;
  static bool dominates(const Domain& domain, std::int32_t better, std::int32_t worse, const std::vector<Rows>& edges);
  static bool is_dead(const Domain& domain, std::int32_t value, const std::vector<Rows>& edges);
  std::int32_t restrict_domain(std::int32_t domain, const std::vector<std::int32_t>& kept);
  std::int32_t restrict_projection(std::int32_t projection, const std::vector<std::int32_t>& kept);
  std::int32_t restrict_values(std::int32_t values, const std::vector<std::int32_t>& kept);
  void kill_edge(std::int32_t edge);
  void wake(std::int32_t variable);
  void compact();
  std::int32_t best_value(const Eliminated& step, const Assignment& original) const;

  CostNetwork net_;
  Cost constant_ = 0;
  bool infeasible_ = false;

  std::vector<std::vector<std::int32_t>> edges_of_;
  std::vector<char> edge_alive_;
  std::vector<char> variable_alive_;
  std::vector<char> awake_;  // something around the variable changed since it was looked at
  /// Lists of original values that current values stand for, ascending; values_[v] indexes them, -1: all.
  std::vector<std::vector<std::int32_t>> value_lists_;
  std::vector<std::int32_t> values_;
  std::vector<Eliminated> eliminated_;
  std::vector<std::int32_t> remaining_;  // original variable of each reduced one
  std::size_t num_original_ = 0;

  std::map<Key, std::int32_t> leaf_memo_;
  std::map<Key, std::int32_t> link_memo_;
  std::map<Key, std::array<std::int32_t, 3>> merge_memo_;
  std::map<Key, std::vector<std::int32_t>> survivor_memo_;
  std::map<Key, std::int32_t> domain_memo_;
  std::map<Key, std::int32_t> projection_memo_;
  std::map<Key, std::int32_t> values_memo_;
};

}  // namespace autopar::engine
