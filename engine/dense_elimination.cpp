#include "engine/dense_elimination.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/index.h"
#include "engine/vectorise.h"

namespace autopar::engine {
namespace {

AUTOPAR_VECTORISED void add_row(Cost* to, const Cost* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const Cost sum = to[i] + from[i];
    to[i] = sum < kForbidden ? sum : kForbidden;
  }
}

AUTOPAR_VECTORISED void add_constant(Cost* to, Cost cost, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const Cost sum = to[i] + cost;
    to[i] = sum < kForbidden ? sum : kForbidden;
  }
}

/// Notes `value` where `from` is less.
AUTOPAR_VECTORISED void take_least(Cost* to, std::uint8_t* chosen, const Cost* from, std::uint8_t value,
                                   std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_less = from[i] < to[i];
    to[i] = is_less ? from[i] : to[i];
    chosen[i] = is_less ? value : chosen[i];
  }
}

/// Neighbours in the graph that shrinks as variables are eliminated, and the table that eliminating each would take.
class Graph {
 public:
  Graph(const std::vector<std::int32_t>& sizes, const std::vector<DenseElimination::Pair>& pairs)
      : sizes_(sizes), around_(sizes.size()), table_(sizes.size(), 0) {
    for (const DenseElimination::Pair& pair : pairs) {
      around_[ix(pair.u)].insert(pair.v);
      around_[ix(pair.v)].insert(pair.u);
    }
    for (std::size_t v = 0; v < sizes.size(); ++v) enqueue(static_cast<std::int32_t>(v));
  }

  bool empty() const { return queue_.empty(); }
  /// The variable whose elimination takes the smallest table, and that table's size.
  std::pair<double, std::int32_t> smallest() const { return *queue_.begin(); }
  const std::set<std::int32_t>& around(std::int32_t v) const { return around_[ix(v)]; }

  void remove(std::int32_t v, bool connect) {
    queue_.erase({table_[ix(v)], v});
    const std::set<std::int32_t> neighbours = std::move(around_[ix(v)]);
    for (std::int32_t a : neighbours) {
      queue_.erase({table_[ix(a)], a});
      around_[ix(a)].erase(v);
      if (connect) around_[ix(a)].insert(neighbours.begin(), neighbours.end());
      around_[ix(a)].erase(a);
    }
    for (std::int32_t a : neighbours) enqueue(a);
  }

 private:
  void enqueue(std::int32_t v) {
    double table = sizes_[ix(v)];
    for (std::int32_t a : around_[ix(v)]) table *= sizes_[ix(a)];
    table_[ix(v)] = table;
    queue_.emplace(table, v);
  }

  const std::vector<std::int32_t>& sizes_;
  std::vector<std::set<std::int32_t>> around_;
  std::vector<double> table_;
  std::set<std::pair<double, std::int32_t>> queue_;
};

}  // namespace

DenseElimination::DenseElimination(std::vector<std::int32_t> sizes, std::vector<std::int32_t> current,
                                   std::vector<Pair> pairs, std::size_t max_table)
    : sizes_(std::move(sizes)), current_(std::move(current)), pairs_(std::move(pairs)) {
  choose_order(max_table);
  make_buckets();
}

void DenseElimination::choose_order(std::size_t max_table) {
  position_.assign(sizes_.size(), -1);
  Graph graph(sizes_, pairs_);
  while (!graph.empty()) {
    auto [table, variable] = graph.smallest();
    if (table <= static_cast<double>(max_table)) {
      position_[ix(variable)] = static_cast<std::int32_t>(order_.size());
      order_.push_back(variable);
      graph.remove(variable, true);
      continue;
    }
    // Of those that make the table large, the one with most neighbours stays as it is.
    std::int32_t widest = variable;
    for (std::int32_t other : graph.around(variable)) {
      if (graph.around(other).size() > graph.around(widest).size()) widest = other;
    }
    graph.remove(widest, false);
    ++num_kept_;
  }
}

std::int32_t DenseElimination::size_at(std::int32_t position) const { return sizes_[ix(order_[ix(position)])]; }

void DenseElimination::make_buckets() {
  buckets_.resize(order_.size());
  add_pairs();
  std::size_t most = 0;
  std::size_t num_choices = 0;
  for (std::size_t p = 0; p < buckets_.size(); ++p) {
    Bucket& bucket = buckets_[p];
    bucket.scope = {static_cast<std::int32_t>(p)};
    for (std::int32_t factor : bucket.factors) {
      const std::vector<std::int32_t>& scope = factors_[ix(factor)].scope;
      bucket.scope.insert(bucket.scope.end(), scope.begin(), scope.end());
    }
    std::ranges::sort(bucket.scope);
    bucket.scope.erase(std::unique(bucket.scope.begin(), bucket.scope.end()), bucket.scope.end());
    bucket.size = 1;
    for (std::size_t i = 1; i < bucket.scope.size(); ++i) bucket.size *= ix(size_at(bucket.scope[i]));
    const std::size_t joint = bucket.size * ix(size_at(bucket.scope[0]));
    most = std::max(most, joint);
    work_ += joint * (bucket.factors.size() + 1);
    bucket.choice_at = num_choices;
    num_choices += bucket.size;
    if (bucket.scope.size() == 1) continue;
    bucket.message = static_cast<std::int32_t>(factors_.size());
    factors_.push_back({{bucket.scope.begin() + 1, bucket.scope.end()}, {}});
    Bucket& reader = buckets_[ix(bucket.scope[1])];
    reader.factors.push_back(bucket.message);
    reader.children.push_back(static_cast<std::int32_t>(p));
  }
  joint_.resize(most);
  choices_.resize(num_choices);
  place_messages();
}

/// Those between two variables that are eliminated become factors, transposed if need be.
void DenseElimination::add_pairs() {
  for (Pair& pair : pairs_) {
    const std::int32_t u = position_[ix(pair.u)];
    const std::int32_t v = position_[ix(pair.v)];
    if (u < 0 || v < 0) continue;
    Factor factor{{std::min(u, v), std::max(u, v)}, std::move(pair.costs)};
    if (u > v) {
      const auto rows = ix(sizes_[ix(pair.u)]);
      const auto cols = ix(sizes_[ix(pair.v)]);
      std::vector<Cost> transposed(rows * cols);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c) transposed[c * rows + r] = factor.costs[r * cols + c];
      }
      factor.costs = std::move(transposed);
    }
    buckets_[ix(factor.scope.front())].factors.push_back(static_cast<std::int32_t>(factors_.size()));
    factors_.push_back(std::move(factor));
  }
  std::erase_if(pairs_,
                [this](const Pair& pair) { return (position_[ix(pair.u)] < 0) == (position_[ix(pair.v)] < 0); });
}

/// A bucket's message begins where the first one that it reads began: all of these are read by then.
void DenseElimination::place_messages() {
  struct Visit {
    std::int32_t bucket = -1;
    std::size_t next_child = 0;
    std::size_t begin = 0;
  };
  std::vector<Visit> stack;
  std::size_t most = 0;
  for (std::size_t root = 0; root < buckets_.size(); ++root) {
    if (buckets_[root].message >= 0) continue;
    std::size_t end = 0;
    stack.push_back({static_cast<std::int32_t>(root), 0, 0});
    while (!stack.empty()) {
      Visit& visit = stack.back();
      const Bucket& bucket = buckets_[ix(visit.bucket)];
      if (visit.next_child < bucket.children.size()) {
        stack.push_back({bucket.children[visit.next_child++], 0, end});
        continue;
      }
      if (bucket.message >= 0) {
        factors_[ix(bucket.message)].at = visit.begin;
        end = visit.begin + bucket.size;
        most = std::max(most, end);
      }
      depth_first_.push_back(visit.bucket);
      stack.pop_back();
    }
  }
  messages_.resize(most);
}

const Cost* DenseElimination::costs_of(const Factor& factor) const {
  return factor.costs.empty() ? messages_.data() + factor.at : factor.costs.data();
}

std::vector<std::int32_t> DenseElimination::solve(const std::vector<std::vector<Cost>>& costs) {
  std::vector<std::vector<Cost>> own = costs;
  for (const Pair& pair : pairs_) {
    const bool u_kept = position_[ix(pair.u)] < 0;
    const auto cols = ix(sizes_[ix(pair.v)]);
    std::vector<Cost>& open = own[ix(u_kept ? pair.v : pair.u)];
    for (std::size_t x = 0; x < open.size(); ++x) {
      const std::size_t row = u_kept ? ix(current_[ix(pair.u)]) : x;
      const std::size_t col = u_kept ? x : ix(current_[ix(pair.v)]);
      open[x] = add(open[x], pair.costs[row * cols + col]);
    }
  }
  for (std::int32_t p : depth_first_) eliminate(buckets_[ix(p)], own[ix(order_[ix(p)])]);
  std::vector<std::int32_t> at_position(order_.size(), 0);
  std::vector<std::int32_t> values = current_;
  for (std::size_t p = buckets_.size(); p-- > 0;) {
    const std::vector<std::int32_t>& scope = buckets_[p].scope;
    std::size_t at = 0;
    for (std::size_t i = 1; i < scope.size(); ++i) at = at * ix(size_at(scope[i])) + ix(at_position[ix(scope[i])]);
    at_position[p] = choices_[buckets_[p].choice_at + at];
    values[ix(order_[p])] = at_position[p];
  }
  return values;
}

void DenseElimination::eliminate(const Bucket& bucket, const std::vector<Cost>& costs) {
  for (std::size_t x = 0; x < costs.size(); ++x) {
    std::fill_n(joint_.begin() + static_cast<std::ptrdiff_t>(x * bucket.size), bucket.size, costs[x]);
  }
  for (std::int32_t factor : bucket.factors) add_factor(bucket, factors_[ix(factor)]);
  std::uint8_t* choices = choices_.data() + bucket.choice_at;
  std::fill_n(choices, bucket.size, std::uint8_t{0});
  for (std::size_t x = 1; x < costs.size(); ++x) {
    take_least(joint_.data(), choices, joint_.data() + x * bucket.size, static_cast<std::uint8_t>(x), bucket.size);
  }
  if (bucket.message < 0) return;
  std::copy_n(joint_.data(), bucket.size, messages_.data() + factors_[ix(bucket.message)].at);
}

/// Adds the factor's costs to the joint table, in runs of the table's last variables that the factor has all or none
/// of.
void DenseElimination::add_factor(const Bucket& bucket, const Factor& factor) {
  const std::vector<std::int32_t>& scope = bucket.scope;
  std::vector<std::size_t> stride(scope.size(), 0);  // in the factor
  std::size_t inside = 1;
  for (std::size_t i = factor.scope.size(); i-- > 0;) {
    const auto at = std::ranges::lower_bound(scope, factor.scope[i]) - scope.begin();
    stride[ix(at)] = inside;
    inside *= ix(size_at(factor.scope[i]));
  }
  std::size_t run = 1;
  std::size_t outer = scope.size();
  const bool has_last = stride.back() > 0;
  while (outer > 0 && (stride[outer - 1] > 0) == has_last) run *= ix(size_at(scope[--outer]));
  std::vector<std::int32_t> digits(outer, 0);
  std::size_t offset = 0;
  const std::size_t total = bucket.size * ix(size_at(scope[0]));
  const Cost* costs = costs_of(factor);
  for (std::size_t base = 0; base < total; base += run) {
    if (has_last) {
      add_row(joint_.data() + base, costs + offset, run);
    } else {
      add_constant(joint_.data() + base, costs[offset], run);
    }
    for (std::size_t i = outer; i-- > 0;) {
      offset += stride[i];
      if (++digits[i] < size_at(scope[i])) break;
      offset -= stride[i] * ix(size_at(scope[i]));
      digits[i] = 0;
    }
  }
}

}  // namespace autopar::engine
