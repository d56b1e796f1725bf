#include "io/check_solution.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "io/json.h"
#include "io/read_problem.h"

namespace autopar::io {
namespace {

__extension__ using Wide = __int128;
using Numbers = std::vector<std::int64_t>;

constexpr std::size_t kMostNamed = 5;  ///< faults of one kind, or nodes at a time, that are told one by one

struct StatedSolution {
  Numbers choices;
  std::optional<std::int64_t> cost;
  std::optional<std::int64_t> bound;
};

StatedSolution read_solution(const std::string& file, const std::string& text) {
  const JsonDocument document(file, text);
  const JsonValue root = document.root();
  if (root.is_array()) return {root.int64_list(), std::nullopt, std::nullopt};
  if (!root.is_object()) root.fail("expected a list of strategies or a solution file");
  expect_format(root, "autopar-solution", 1);
  root.expect_keys(
      {"format", "version", "producer", "problem", "status", "cost", "bound", "gap", "choices", "timeline", "run"});
  return {root.at("choices").int64_list(), root.at("cost").int64(), root.at("bound").int64()};
}

class Evaluation {
 public:
  Evaluation(const JsonValue& problem, StatedSolution stated)
      : nodes_(problem.at("nodes")), edges_(problem.at("edges")), stated_(std::move(stated)) {
    if (const auto limit = problem.find("usage_limit")) limit_ = limit->int64();
    for (const JsonValue& costs : nodes_.at("costs").items()) node_costs_.push_back(costs.int64_list());
  }

  SolutionCheck run() {
    if (!has_right_shape()) return std::move(check_);
    add_nodes();
    add_edges();
    add_usage();
    check_.facts = fmt::format("Cost   {}\nUsage  {} at the peak{}, {}\n", cost_, peak_,
                               peak_ > 0 ? fmt::format(", time {}", peak_time_) : "",
                               limit_ ? fmt::format("limit {}", *limit_) : "no limit");
    if (stated_.cost && cost_ != *stated_.cost) {
      fault("cost", fmt::format("the file says that the cost is {}; it is {}", *stated_.cost, cost_));
    }
    if (stated_.bound && cost_ < *stated_.bound) {
      fault("bound",
            fmt::format("the file says that no solution costs less than {}; this one costs {}", *stated_.bound, cost_));
    }
    for (const auto& [kind, count] : num_faults_) {
      if (count > kMostNamed) check_.faults.push_back(fmt::format("{} more of kind: {}", count - kMostNamed, kind));
    }
    return std::move(check_);
  }

 private:
  void fault(const std::string& kind, std::string message) {
    if (++num_faults_[kind] <= kMostNamed) check_.faults.push_back(std::move(message));
  }

  std::int64_t choice(std::size_t node) const { return stated_.choices[node]; }

  /// One strategy for each node that the node has.
  bool has_right_shape() {
    const Numbers& choices = stated_.choices;
    if (choices.size() != node_costs_.size()) {
      fault("choices", fmt::format("{} choices for {} nodes", choices.size(), node_costs_.size()));
      return false;
    }
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const auto count = static_cast<std::int64_t>(node_costs_[i].size());
      if (choices[i] >= 0 && choices[i] < count) continue;
      fault("node without this strategy",
            fmt::format("choices[{}] is {}, but node {} has strategies 0 to {}", i, choices[i], i, count - 1));
    }
    return check_.faults.empty();
  }

  void add_nodes() {
    for (std::size_t i = 0; i < node_costs_.size(); ++i) {
      const std::int64_t cost = node_costs_[i][static_cast<std::size_t>(choice(i))];
      if (cost >= kForbiddenInFile) {
        fault("forbidden strategy", fmt::format("strategy {} of node {} is forbidden", choice(i), i));
      }
      cost_ += cost;
    }
  }

  void add_edges() {
    const std::vector<JsonValue> ends = edges_.at("nodes").items();
    const std::vector<JsonValue> costs = edges_.at("costs").items();
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const Numbers pair = ends[i].int64_list();
      const auto u = static_cast<std::size_t>(pair[0]);
      const auto v = static_cast<std::size_t>(pair[1]);
      const std::size_t entry =
          static_cast<std::size_t>(choice(u)) * node_costs_[v].size() + static_cast<std::size_t>(choice(v));
      const std::int64_t cost = costs[i].int64_list()[entry];
      if (cost >= kForbiddenInFile) {
        fault("forbidden pair", fmt::format("edge {} forbids strategy {} of node {} with strategy {} of node {}", i,
                                            choice(u), u, choice(v), v));
      }
      cost_ += cost;
    }
  }

  void add_usage() {
    const std::vector<JsonValue> intervals = nodes_.at("intervals").items();
    const std::vector<JsonValue> usages = nodes_.at("usages").items();
    std::map<std::int64_t, Wide> changes;  // by time
    for (std::size_t i = 0; i < node_costs_.size(); ++i) {
      const Numbers interval = intervals[i].int64_list();
      const std::int64_t usage = usages[i].int64_list()[static_cast<std::size_t>(choice(i))];
      intervals_.emplace_back(interval[0], interval[1]);
      usages_.push_back(usage);
      if (interval[0] == interval[1]) continue;
      changes[interval[0]] += usage;
      changes[interval[1]] -= usage;
    }
    Wide now = 0;
    for (const auto& [time, change] : changes) {
      now += change;
      if (now > peak_) {
        peak_ = now;
        peak_time_ = time;
      }
    }
    if (limit_ && peak_ > *limit_) fault("usage", over_limit());
  }

  std::string over_limit() const {
    std::vector<std::pair<std::int64_t, std::size_t>> used;  // (usage, node)
    for (std::size_t i = 0; i < usages_.size(); ++i) {
      if (intervals_[i].first <= peak_time_ && peak_time_ < intervals_[i].second) used.emplace_back(usages_[i], i);
    }
    std::sort(used.begin(), used.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    used.resize(std::min(used.size(), kMostNamed));
    std::vector<std::string> parts;
    for (const auto& [usage, node] : used) parts.push_back(fmt::format("node {} ({})", node, usage));
    return fmt::format("at time {} the usage is {}, above the limit of {}; most by {}", peak_time_, peak_, *limit_,
                       fmt::join(parts, ", "));
  }

  JsonValue nodes_;
  JsonValue edges_;
  StatedSolution stated_;
  std::optional<std::int64_t> limit_;
  std::vector<Numbers> node_costs_;
  std::vector<std::pair<std::int64_t, std::int64_t>> intervals_;
  Numbers usages_;  // of what is chosen
  Wide cost_ = 0;
  Wide peak_ = 0;
  std::int64_t peak_time_ = 0;
  std::map<std::string, std::size_t> num_faults_;  // by kind
  SolutionCheck check_;
};

}  // namespace

SolutionCheck check_solution(const std::string& problem_file, const std::string& problem,
                             const std::string& solution_file, const std::string& solution) {
  read_problem(problem_file, problem);  // for its messages: from here on the file's shape is right
  StatedSolution stated = read_solution(solution_file, solution);
  const JsonDocument document(problem_file, problem);
  return Evaluation(document.root().at("problem"), std::move(stated)).run();
}

}  // namespace autopar::io
