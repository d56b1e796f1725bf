#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

/// The problem that the engine solves. It knows no model: variables with finite domains, costs on single variables and
/// on pairs, and a limit on what is used at every time point.
namespace autopar::engine {

using Cost = std::int64_t;
/// For sums and products that 64 bits might not hold.
__extension__ using Wide = __int128;

/// Costs at or above this are forbidden. Far below the maximum, so that a few of them can be added.
inline constexpr Cost kForbidden = std::numeric_limits<Cost>::max() / 8;

/// Adds costs; anything forbidden stays exactly kForbidden.
constexpr Cost add(Cost a, Cost b) {
  const Cost sum = a + b;
  return sum >= kForbidden ? kForbidden : sum;
}

/// Costs of pairs of states, row-major. Shared by all edges that have it.
struct Table {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::vector<Cost> costs;

  Cost at(std::int32_t row, std::int32_t col) const {
    return costs[static_cast<std::size_t>(row) * static_cast<std::size_t>(cols) + static_cast<std::size_t>(col)];
  }
  bool operator==(const Table&) const = default;
};

/// Tables that copies of a network share: most of its memory. None changes once it is in.
class Tables {
 public:
  Tables() = default;
  Tables(std::initializer_list<Table> tables) {
    for (const Table& table : tables) push_back(table);
  }
  explicit Tables(std::vector<Table> tables) {
    for (Table& table : tables) push_back(std::move(table));
  }
  void push_back(Table table) { tables_.push_back(std::make_shared<const Table>(std::move(table))); }
  /// One that another network has, too.
  void push_back(std::shared_ptr<const Table> table) { tables_.push_back(std::move(table)); }
  void reserve(std::size_t size) { tables_.reserve(size); }

  const Table& operator[](std::size_t index) const { return *tables_[index]; }
  const std::shared_ptr<const Table>& shared(std::size_t index) const { return tables_[index]; }
  std::size_t size() const { return tables_.size(); }
  bool operator==(const Tables& other) const {
    return std::ranges::equal(tables_, other.tables_, [](const auto& a, const auto& b) { return *a == *b; });
  }

 private:
  std::vector<std::shared_ptr<const Table>> tables_;
};

/// Maps each value of a domain to a state (a row or column of a table). Shared.
using Projection = std::vector<std::int32_t>;

/// The states that some value has, ascending.
std::vector<std::int32_t> states_of(const Projection& projection);

/// Facts about a domain that copies of one variable (in repeated layers) share.
struct Domain {
  std::vector<Cost> costs;                       ///< of each value
  std::vector<std::vector<std::int64_t>> usage;  ///< of each value, for each of Variable::spans; empty: none
  /// Values grouped for branching: level[l][value] is the value's group at level l, finer with each level (the choice
  /// on mesh dims 0..l). May be empty: then branching goes by single values.
  std::vector<std::vector<std::int32_t>> levels;
  bool operator==(const Domain&) const = default;
  std::int32_t size() const { return static_cast<std::int32_t>(costs.size()); }
};

/// `domain` with the costs of states added to those of the values that have them.
Domain with_costs(const Domain& domain, const Projection& projection, const std::vector<Cost>& of_state);

/// Splits `values` by the coarsest of Domain::levels that tells them apart (the choice on the first mesh dim, then on
/// the second, ...), else one by one.
std::vector<std::vector<std::int32_t>> split_by_levels(const std::vector<std::vector<std::int32_t>>& levels,
                                                       const std::vector<std::int32_t>& values);

/// Time points start <= t < end.
struct Span {
  std::int32_t start = 0;
  std::int32_t end = 0;
  bool operator==(const Span&) const = default;
};

struct Variable {
  std::int32_t domain = -1;  ///< index into CostNetwork::domains
  std::int32_t segment = 0;  ///< position in the chain of segments
  /// When each row of the domain's usage counts. Those of one variable may overlap: then they add up.
  std::vector<Span> spans = {};
};

/// θ_uv(x_u, x_v) = table[project_u[x_u]][project_v[x_v]].
struct Edge {
  std::int32_t u = -1;
  std::int32_t v = -1;
  std::int32_t table = -1;
  std::int32_t project_u = -1;  ///< index into CostNetwork::projections
  std::int32_t project_v = -1;
};

/// Equal domains, tables and projections have equal indices (they are interned), so that repeated structure can be seen
/// by comparing integers.
struct CostNetwork {
  std::vector<Domain> domains;
  Tables tables;
  std::vector<Projection> projections;
  std::vector<Variable> variables;
  std::vector<Edge> edges;
  std::int64_t usage_limit = -1;  ///< at every time point; negative: none
  /// Used at the time points 0, 1, ... whatever is chosen; nothing at later ones.
  std::vector<std::int64_t> base_usage = {};

  std::int32_t num_variables() const { return static_cast<std::int32_t>(variables.size()); }
  const Domain& domain(std::int32_t variable) const {
    return domains[static_cast<std::size_t>(variables[static_cast<std::size_t>(variable)].domain)];
  }
};

/// One value per variable.
using Assignment = std::vector<std::int32_t>;

/// Total cost of `assignment`, kForbidden if any part is or if a time point's usage exceeds the limit. Sums in 128
/// bits.
Cost evaluate(const CostNetwork& network, const Assignment& assignment);

/// Usage at time point `time`.
std::int64_t usage_at(const CostNetwork& network, const Assignment& assignment, std::int32_t time);

/// Largest usage over all time points.
std::int64_t peak_usage(const CostNetwork& network, const Assignment& assignment);

}  // namespace autopar::engine
