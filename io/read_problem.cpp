#include "io/read_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/index.h"
#include "engine/intern.h"
#include "io/input_error.h"
#include "io/scan_json.h"

namespace autopar::io {
namespace {

using engine::Cost;
using engine::ix;
using Numbers = std::vector<std::int64_t>;

struct NumbersHash {
  std::uint64_t operator()(const Numbers& numbers) const { return engine::mix_all(0, numbers); }
};
using Lists = engine::Interner<Numbers, NumbersHash>;

/// A sum that must stay below what stands for "forbidden": then no sum of allowed parts can be taken for it, and none
/// of the engine's sums overflows.
class BoundedSum {
 public:
  /// Returns false if the sum grew too large.
  bool add(std::int64_t amount) {
    sum_ = amount >= kForbiddenInFile - sum_ ? kForbiddenInFile : sum_ + amount;
    return sum_ < kForbiddenInFile;
  }

 private:
  std::int64_t sum_ = 0;
};

class ProblemReader {
 public:
  ProblemReader(const std::string& file, std::string_view text) : file_(file), scanner_(file, text) {}

  TableProblem read() {
    scanner_.object({"problem"}, {}, [&](const std::string&) {
      scanner_.object({"name", "nodes", "edges"}, {"usage_limit"}, [&](const std::string& key) {
        if (key == "name") {
          problem_.name = scanner_.string();
        } else if (key == "nodes") {
          read_nodes();
        } else if (key == "edges") {
          read_edges();
        } else {
          network().usage_limit = scanner_.int64();
          if (network().usage_limit < 0) scanner_.fail(fmt::format("{} is negative", network().usage_limit));
        }
      });
    });
    scanner_.end();
    check_nodes();
    add_edges();
    add_variables();
    return std::move(problem_);
  }

 private:
  engine::CostNetwork& network() { return problem_.network; }

  [[noreturn]] void fail(const std::string& place, const std::string& message) const {
    throw InputError(file_, "problem." + place, message);
  }

  void read_nodes() {
    scanner_.object({"intervals", "costs", "usages"}, {}, [&](const std::string& key) {
      if (key == "intervals") {
        scanner_.list([&](std::int64_t) { read_interval(); });
      } else if (key == "costs") {
        scanner_.list([&](std::int64_t) {
          read_costs("node costs");
          if (numbers_.empty()) scanner_.fail("is empty: the node has no strategy");
          node_costs_.push_back(lists_.add(numbers_));
        });
      } else {
        scanner_.list([&](std::int64_t) { read_usages(); });
      }
    });
  }

  void read_interval() {
    scanner_.int64_list(numbers_);
    if (numbers_.size() != 2) scanner_.fail(fmt::format("expected [start, end], found {} numbers", numbers_.size()));
    const std::int64_t start = numbers_[0];
    const std::int64_t end = numbers_[1];
    constexpr std::int64_t kLatest = std::numeric_limits<std::int32_t>::max();
    if (start < 0) scanner_.fail(fmt::format("{} is negative", start), "[0]");
    if (end > kLatest) scanner_.fail(fmt::format("expected a time of at most {}, found {}", kLatest, end), "[1]");
    if (end < start) scanner_.fail(fmt::format("ends at {}, before its start at {}", end, start));
    intervals_.push_back({static_cast<std::int32_t>(start), static_cast<std::int32_t>(end)});
  }

  /// Reads a list of costs into `numbers_`. Whatever is forbidden becomes the engine's kForbidden.
  void read_costs(std::string_view what) {
    scanner_.int64_list(numbers_);
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      if (numbers_[i] < 0) scanner_.fail(fmt::format("{} is negative", numbers_[i]), fmt::format("[{}]", i));
      if (numbers_[i] >= kForbiddenInFile) {
        numbers_[i] = engine::kForbidden;
      } else {
        largest = std::max(largest, numbers_[i]);
      }
    }
    if (!largest_costs_.add(largest)) {
      scanner_.fail(
          fmt::format("with these {} the largest costs add up to 10^18 or more, which stands for forbidden", what));
    }
  }

  void read_usages() {
    scanner_.int64_list(numbers_);
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      if (numbers_[i] < 0) scanner_.fail(fmt::format("{} is negative", numbers_[i]), fmt::format("[{}]", i));
    }
    const bool is_safe = numbers_.empty() || largest_usages_.add(*std::max_element(numbers_.begin(), numbers_.end()));
    if (!is_safe) scanner_.fail("with these the largest usages add up to 10^18 or more");
    usages_.push_back(lists_.add(numbers_));
  }

  void read_edges() {
    scanner_.object({"nodes", "costs"}, {}, [&](const std::string& key) {
      if (key == "nodes") {
        scanner_.list([&](std::int64_t) { read_ends(); });
      } else {
        scanner_.list([&](std::int64_t) {
          read_costs("edge costs");
          edge_costs_.push_back(lists_.add(numbers_));
        });
      }
    });
  }

  void read_ends() {
    scanner_.int64_list(numbers_);
    if (numbers_.size() != 2) scanner_.fail(fmt::format("expected two nodes, found {}", numbers_.size()));
    // How many nodes there are may stand later in the file.
    for (std::size_t i = 0; i < 2; ++i) {
      if (numbers_[i] < 0 || numbers_[i] > std::numeric_limits<std::int32_t>::max()) {
        scanner_.fail(fmt::format("there is no node {}", numbers_[i]), fmt::format("[{}]", i));
      }
    }
    ends_.emplace_back(static_cast<std::int32_t>(numbers_[0]), static_cast<std::int32_t>(numbers_[1]));
  }

  /// What can be seen only once all is read: whether lists fit together.
  void check_nodes() const {
    const std::size_t count = node_costs_.size();
    const auto expect_length = [&](std::string_view key, std::size_t found, std::size_t expected, std::string_view as) {
      if (found != expected) fail(std::string(key), fmt::format("{} items, but {} has {}", found, as, expected));
    };
    expect_length("nodes.intervals", intervals_.size(), count, "nodes.costs");
    expect_length("nodes.usages", usages_.size(), count, "nodes.costs");
    expect_length("edges.costs", edge_costs_.size(), ends_.size(), "edges.nodes");
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t found = lists_[usages_[i]].size();
      if (found != num_strategies(i)) {
        fail(fmt::format("nodes.usages[{}]", i), fmt::format("{} usages for {} strategies", found, num_strategies(i)));
      }
    }
  }

  std::size_t num_strategies(std::size_t node) const { return lists_[node_costs_[node]].size(); }

  void add_edges() {
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      const auto [u, v] = ends_[i];
      for (const std::int32_t node : {u, v}) {
        if (ix(node) < node_costs_.size()) continue;
        fail(fmt::format("edges.nodes[{}][{}]", i, node == u ? 0 : 1),
             fmt::format("there is no node {}: the file has {}", node, node_costs_.size()));
      }
      const std::size_t rows = num_strategies(ix(u));
      const std::size_t cols = num_strategies(ix(v));
      if (const std::size_t found = lists_[edge_costs_[i]].size(); found != rows * cols) {
        fail(fmt::format("edges.costs[{}]", i),
             fmt::format("{} costs for {} x {} strategies of nodes {} and {}", found, rows, cols, u, v));
      }
      if (u == v) {
        loops_[u].push_back(edge_costs_[i]);
        continue;
      }
      network().edges.push_back({u, v, table(edge_costs_[i], rows, cols), identity(rows), identity(cols)});
    }
  }

  std::int32_t table(std::int32_t list, std::size_t rows, std::size_t cols) {
    const auto [it, is_new] = tables_.try_emplace({list, rows}, static_cast<std::int32_t>(network().tables.size()));
    if (is_new) {
      network().tables.push_back(
          engine::Table{static_cast<std::int32_t>(rows), static_cast<std::int32_t>(cols), lists_[list]});
    }
    return it->second;
  }

  /// The projection of each strategy to itself.
  std::int32_t identity(std::size_t size) {
    const auto [it, is_new] = identities_.try_emplace(size, static_cast<std::int32_t>(network().projections.size()));
    if (is_new) {
      engine::Projection& projection = network().projections.emplace_back(size);
      for (std::size_t x = 0; x < size; ++x) projection[x] = static_cast<std::int32_t>(x);
    }
    return it->second;
  }

  void add_variables() {
    engine::Interner<engine::Domain, engine::HashDomain> domains;
    for (std::size_t i = 0; i < node_costs_.size(); ++i) {
      engine::Domain domain;
      domain.costs = lists_[node_costs_[i]];
      if (const auto loops = loops_.find(static_cast<std::int32_t>(i)); loops != loops_.end()) {
        for (const std::int32_t list : loops->second) {
          const std::size_t step = domain.costs.size() + 1;  // along the diagonal
          for (std::size_t x = 0; x < domain.costs.size(); ++x) {
            domain.costs[x] = engine::add(domain.costs[x], lists_[list][x * step]);
          }
        }
      }
      engine::Variable variable;
      const Numbers& usage = lists_[usages_[i]];
      const bool is_ever_used = std::any_of(usage.begin(), usage.end(), [](std::int64_t used) { return used > 0; });
      if (network().usage_limit >= 0 && is_ever_used && intervals_[i].start < intervals_[i].end) {
        domain.usage.push_back(usage);
        variable.spans.push_back(intervals_[i]);
      }
      variable.domain = domains.add(std::move(domain));
      network().variables.push_back(std::move(variable));
    }
    network().domains = domains.take();
  }

  std::string file_;
  JsonScanner scanner_;
  TableProblem problem_;
  Numbers numbers_;  // the list that is being read
  Lists lists_;      // costs of nodes and edges, and usages
  std::vector<engine::Span> intervals_;
  std::vector<std::int32_t> node_costs_;  // per node: index into lists_
  std::vector<std::int32_t> usages_;
  std::vector<std::pair<std::int32_t, std::int32_t>> ends_;
  std::vector<std::int32_t> edge_costs_;
  std::map<std::int32_t, std::vector<std::int32_t>> loops_;              // by node: costs of edges to itself
  std::map<std::pair<std::int32_t, std::size_t>, std::int32_t> tables_;  // by list and number of rows
  std::map<std::size_t, std::int32_t> identities_;                       // by size
  BoundedSum largest_costs_;
  BoundedSum largest_usages_;
};

}  // namespace

bool is_problem(std::string_view text) {
  // What belongs into the key "problem" may stand outermost: no model, and read_problem says what is missing.
  return has_outermost_key(text, "problem", "format") || has_outermost_key(text, "edges", "format");
}

TableProblem read_problem(const std::string& file, std::string_view text) {
  if (has_outermost_key(text, "edges", "problem")) {
    throw InputError(file, "", R"(key "problem" is missing; put the cost table into it: {"problem": ...})");
  }
  return ProblemReader(file, text).read();
}

}  // namespace autopar::io
