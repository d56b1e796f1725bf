#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/block.h"
#include "engine/cost_network.h"
#include "engine/intern.h"
#include "engine/usage.h"

namespace autopar::engine {

/// Which of presolve's steps to take. Values that cannot be part of any allowed assignment always go, and edges between
/// the same two variables always become one.
struct PresolveSteps {
  bool dominate = true;   ///< a value goes if another is at least as good whatever the neighbours choose, and uses no
                          ///< more (dead-end elimination: Goldstein 1994, for protein side chains)
  bool eliminate = true;  ///< variables without usage and with at most two neighbours go (bucket elimination, Dechter
                          ///< 1999), which leaves a table between the neighbours
  bool contract = true;   ///< a variable whose value follows from a neighbour's becomes part of it
  bool fold = true;       ///< tables that are the sum of a row and a column go into the costs of their ends
  bool usage = true;      ///< only what can break the limit is kept of usage over time
  /// After so much work, in table entries about, it stops halfway: what it did until then holds. Not a time, so that
  /// all ranks stop at the same place.
  std::int64_t max_work = std::numeric_limits<std::int64_t>::max();
  std::optional<Deadline> deadline = {};  ///< likewise; for one rank
};

/// How often presolve did what.
struct PresolveCounts {
  std::int64_t dead_values = 0;  ///< cannot be part of any assignment, or use more than there is
  std::int64_t dominated_values = 0;
  std::int64_t merged_edges = 0;
  std::int64_t folded_edges = 0;
  std::int64_t contracted = 0;
  std::int64_t eliminated = 0;
  std::int64_t time_points = 0;  ///< what is left of them
};

/// Makes a network smaller without changing its optimum. Every step is memoised by the shared tables it reads, so
/// repeated layers are reduced once and stay alike.
class Presolve {
 public:
  explicit Presolve(CostNetwork network, const PresolveSteps& steps = {});
  /// Of the part of the network that `live` is; assignments stay those of the whole.
  Presolve(CostNetwork network, const LiveValues& live, const PresolveSteps& steps = {});

  /// True if some variable has no value left.
  bool infeasible() const { return infeasible_; }
  /// What remains. Its optimum plus constant() is the optimum of the original network.
  const CostNetwork& reduced() const { return net_; }
  /// For an owner that outlives this object. Assignments can be restored all the same.
  CostNetwork take_reduced() { return std::move(net_); }
  Cost constant() const { return constant_; }
  const PresolveCounts& counts() const { return counts_; }

  /// The best assignment of the original network that agrees with `reduced` on what remained.
  Assignment restore(const Assignment& reduced) const;
  /// What `original` is on the variables that remained; where its value is gone, -1.
  Assignment reduce(const Assignment& original) const;
  /// The time, in the original network, of each time point of reduced() that has usage.
  const std::vector<std::int32_t>& times() const { return times_; }

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
  /// A variable that is gone: its cheapest value follows from its neighbours' values.
  struct Eliminated {
    std::int32_t variable = -1;
    std::int32_t domain = -1;
    std::int32_t values = -1;
    std::array<View, 2> views;
    std::array<std::int32_t, 2> other_values{-1, -1};
    int num_views = 0;
    std::int32_t follows = -1;  // contracted: what it is for each value of its one neighbour, index into maps_
  };
  /// A variable's usage while its span lasts: a row of amounts, one per value.
  struct Use {
    Span span;
    std::int32_t row = -1;
  };
  using Key = std::vector<std::int32_t>;
  /// What was made of what. Forgets where next to nothing comes twice: else memos outgrow a large network many times.
  template <class T>
  class Memo {
   public:
    template <class... Args>
    auto try_emplace(Key key, Args&&... args) {
      if (made_.size() >= kMany && num_hits_ < made_.size() / 4) {
        made_.clear();
        num_hits_ = 0;
      }
      const auto result = made_.try_emplace(std::move(key), std::forward<Args>(args)...);
      num_hits_ += result.second ? 0 : 1;
      return result;
    }

   private:
    static constexpr std::size_t kMany = 200'000;
    std::map<Key, T> made_;
    std::size_t num_hits_ = 0;
  };

  std::vector<View> views(std::int32_t variable) const;
  View view(std::int32_t edge, std::int32_t variable) const;
  Cost cost(const View& view, std::int32_t self_state, std::int32_t other_state) const;
  static Cost cost(const CostNetwork& network, const View& view, std::int32_t self_state, std::int32_t other_state);
  std::int32_t num_states(std::int32_t table, bool rows) const;

  void start(const LiveValues& live);
  void run();
  bool is_spent() const { return work_.done >= steps_.max_work || (steps_.deadline && steps_.deadline->passed()); }
  bool reduce_variable(std::int32_t variable);
  bool merge_parallel(std::int32_t variable);
  bool eliminate(std::int32_t variable);
  void eliminate_leaf(std::int32_t variable, const View& view);
  bool eliminate_link(std::int32_t variable, const View& a, const View& b);
  void merge_edges(std::int32_t first, std::int32_t second);
  bool remove_values(std::int32_t variable);
  void keep_values(std::int32_t variable, const std::vector<std::int32_t>& kept, const std::vector<View>& around);
  bool fold(std::int32_t variable);
  bool contract(std::int32_t variable);
  void contract_into(std::int32_t variable, const View& into, std::int32_t map);
  std::int32_t map_of(const View& view);
  bool reduce_usage();
  bool set_usage(std::int32_t variable, const VariableUsage& usage);
  bool remove_excessive(std::int32_t variable, const VariableUsage& usage, const std::vector<std::int64_t>& capacity);
  CostNetwork users(std::vector<std::int32_t>& variables) const;
  void take_usage();
  void give_usage_back();
  /// The costs of an edge as a variable meets them: per value a row over the neighbour's states.
  struct Rows {
    const Projection* row_of = nullptr;
    std::size_t width = 0;
    std::vector<Cost> costs;
    std::vector<std::size_t> cheapest;  // column of each row
    std::size_t index(std::int32_t value) const {
      return static_cast<std::size_t>((*row_of)[static_cast<std::size_t>(value)]);
    }
    const Cost* row(std::size_t index) const { return costs.data() + index * width; }
  };
  Rows rows_of(const View& view) const;
  /// What is left of a variable's values, and how many of those that are not were dead.
  struct Survivors {
    std::vector<std::int32_t> kept;
    std::int64_t num_dead = 0;
  };
  Survivors surviving_values(std::int32_t variable, const std::vector<View>& views);
  bool dominates(std::int32_t variable, std::int32_t better, std::int32_t worse, const std::vector<Rows>& edges) const;
  static bool is_dead(const Domain& domain, std::int32_t value, const std::vector<Rows>& edges);
  std::int32_t restrict_domain(std::int32_t domain, const std::vector<std::int32_t>& kept);
  std::int32_t restrict_projection(std::int32_t projection, const std::vector<std::int32_t>& kept);
  std::int32_t restrict_row(std::int32_t row, const std::vector<std::int32_t>& kept);
  std::int32_t restrict_values(std::int32_t values, const std::vector<std::int32_t>& kept);
  void kill_edge(std::int32_t edge);
  void wake(std::int32_t variable);
  void compact();
  void keep_what_is_read();
  std::int32_t intern(Domain domain);
  std::int32_t intern(std::vector<std::int64_t> row);
  std::int32_t best_value(const Eliminated& step, const Assignment& original) const;

  /// What only the steps need.
  struct Work {
    std::int64_t done = 0;  // compared with PresolveSteps::max_work
    std::vector<std::vector<std::int32_t>> edges_of;
    std::vector<char> edge_alive;
    std::vector<char> variable_alive;
    std::vector<char> awake;                      // something around the variable changed since it was looked at
    std::vector<std::vector<Use>> uses;           // of each variable
    std::vector<std::vector<std::int64_t>> rows;  // shared by variables
    Memo<std::int32_t> leaf_memo;
    Memo<std::int32_t> link_memo;
    Memo<std::array<std::int32_t, 3>> merge_memo;
    Memo<Survivors> survivor_memo;
    Memo<std::int32_t> domain_memo;
    Memo<std::int32_t> projection_memo;
    Memo<std::int32_t> values_memo;
    Memo<std::int32_t> map_memo;  // -1: values do not follow
    Memo<std::int32_t> row_memo;  // rows of fewer values, or of another variable's
    Memo<std::array<std::int32_t, 2>> fold_memo;
    HashIndex domains_by_hash;
    std::map<std::vector<std::int64_t>, std::int32_t> rows_by_content;
  };

  PresolveSteps steps_;
  PresolveCounts counts_;
  CostNetwork net_;  // its domains have no usage while steps are taken
  Cost constant_ = 0;
  bool infeasible_ = false;
  Work work_;

  /// Lists of original values that current values stand for, ascending; values_[v] indexes them, -1: all.
  std::vector<std::vector<std::int32_t>> value_lists_;
  std::vector<std::int32_t> values_;
  std::vector<Eliminated> eliminated_;
  CostNetwork read_by_eliminated_;  // only domains, tables and projections
  std::vector<std::int32_t> times_;
  std::vector<std::vector<std::int32_t>> maps_;  // from a variable's values to those of another that follows from it
  std::vector<std::int32_t> remaining_;          // original variable of each reduced one
  std::size_t num_original_ = 0;
};

}  // namespace autopar::engine
