#include "io/write_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "engine/index.h"
#include "io/read_problem.h"

namespace autopar::io {
namespace {

using engine::Cost;
using engine::ix;

std::int64_t in_file(Cost cost) { return cost >= engine::kForbidden ? kForbiddenInFile : cost; }

/// The lists of the file, each of its own text.
class ProblemWriter {
 public:
  explicit ProblemWriter(const engine::CostNetwork& network) : network_(network), num_nodes_(network.num_variables()) {}

  std::string write(const std::string& name) {
    for (std::int32_t v = 0; v < network_.num_variables(); ++v) add_variable(v);
    for (const engine::Edge& edge : network_.edges) add_edge(edge);
    for (std::int32_t v = 0; v < network_.num_variables(); ++v) add_further_spans(v);
    std::string text = fmt::format("{{\"problem\": {{\n\"name\": {},\n", nlohmann::json(name).dump());
    text += "\"nodes\": {\n\"intervals\": " + intervals_.text() + ",\n\"costs\": " + costs_.text() +
            ",\n\"usages\": " + usages_.text() + "},\n";
    text += "\"edges\": {\n\"nodes\": " + ends_.text() + ",\n\"costs\": " + edge_costs_.text() + "}";
    if (network_.usage_limit >= 0) text += fmt::format(",\n\"usage_limit\": {}", network_.usage_limit);
    return text + "\n}}\n";
  }

 private:
  /// A list of lists, one per line.
  class Lists {
   public:
    template <typename Range>
    void add(const Range& items) {
      fmt::format_to(std::back_inserter(buffer_), "{}[{}]", buffer_.size() > 0 ? ",\n" : "\n", fmt::join(items, ","));
    }
    std::string text() const { return "[" + fmt::to_string(buffer_) + "\n]"; }

   private:
    fmt::memory_buffer buffer_;
  };

  void add_node(engine::Span span, const std::vector<std::int64_t>& costs, const std::vector<std::int64_t>& usages) {
    intervals_.add(std::vector{span.start, std::max(span.start, span.end)});
    costs_.add(costs);
    usages_.add(usages);
  }

  void add_variable(std::int32_t v) {
    const engine::Domain& domain = network_.domain(v);
    std::vector<std::int64_t> costs;
    for (const Cost cost : domain.costs) costs.push_back(in_file(cost));
    const auto& spans = network_.variables[ix(v)].spans;
    if (spans.empty()) {
      add_node({}, costs, std::vector<std::int64_t>(costs.size(), 0));
    } else {
      add_node(spans[0], costs, domain.usage[0]);
    }
  }

  void add_edge(const engine::Edge& edge) {
    std::vector<std::int64_t> costs;
    for (const std::int32_t row : network_.projections[ix(edge.project_u)]) {
      for (const std::int32_t col : network_.projections[ix(edge.project_v)]) {
        costs.push_back(in_file(network_.tables[ix(edge.table)].at(row, col)));
      }
    }
    ends_.add(std::vector{edge.u, edge.v});
    edge_costs_.add(costs);
  }

  void add_further_spans(std::int32_t v) {
    const engine::Domain& domain = network_.domain(v);
    for (std::size_t s = 1; s < domain.usage.size(); ++s) {
      std::vector<std::int64_t> amounts = domain.usage[s];
      std::sort(amounts.begin(), amounts.end());
      amounts.erase(std::unique(amounts.begin(), amounts.end()), amounts.end());
      if (amounts.back() == 0) continue;
      add_node(network_.variables[ix(v)].spans[s], std::vector<std::int64_t>(amounts.size(), 0), amounts);
      const std::int32_t node = num_nodes_++;
      if (amounts.size() == 1) continue;
      std::vector<std::int64_t> costs;
      for (const std::int64_t usage : domain.usage[s]) {
        for (const std::int64_t amount : amounts) costs.push_back(amount == usage ? 0 : kForbiddenInFile);
      }
      ends_.add(std::vector{v, node});
      edge_costs_.add(costs);
    }
  }

  const engine::CostNetwork& network_;
  std::int32_t num_nodes_;
  Lists intervals_;
  Lists costs_;
  Lists usages_;
  Lists ends_;
  Lists edge_costs_;
};

}  // namespace

std::string format_problem(const std::string& name, const engine::CostNetwork& network) {
  return ProblemWriter(network).write(name);
}

}  // namespace autopar::io
