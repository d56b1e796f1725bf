#pragma once

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/cost_network.h"

namespace autopar::engine::testing {

/// What to draw a random network from.
struct Shape {
  int num_variables = 7;
  int max_domain = 4;
  int percent_edges = 45;
  int percent_forbidden = 6;
  Cost max_cost = 20;
  int num_segments = 3;
  int num_times = 0;       ///< 0: no usage
  int percent_limit = 60;  ///< limit between the least and the most usage
};

/// Not uniform_int_distribution, whose results differ between standard libraries.
inline std::int64_t draw_between(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(high - low + 1));
}

/// Allowed or not.
inline Assignment random_assignment(const CostNetwork& network, std::mt19937& random) {
  Assignment assignment;
  for (std::int32_t v = 0; v < network.num_variables(); ++v) {
    assignment.push_back(static_cast<std::int32_t>(draw_between(random, 0, network.domain(v).size() - 1)));
  }
  return assignment;
}

/// A small random network: shared projections, parallel edges, forbidden pairs and, if asked for, usage.
inline CostNetwork random_network(std::uint32_t seed, const Shape& shape) {
  std::mt19937 random(seed);
  const auto draw = [&](std::int64_t low, std::int64_t high) { return draw_between(random, low, high); };
  CostNetwork network;
  for (int v = 0; v < shape.num_variables; ++v) {
    Domain domain;
    const auto size = draw(1, shape.max_domain);
    domain.levels.resize(2);
    for (std::int64_t x = 0; x < size; ++x) {
      domain.costs.push_back(draw(0, shape.max_cost));
      domain.levels[0].push_back(static_cast<std::int32_t>(x / 2));
      domain.levels[1].push_back(static_cast<std::int32_t>(x));
    }
    Variable variable{static_cast<std::int32_t>(network.domains.size()),
                      static_cast<std::int32_t>(v * shape.num_segments / shape.num_variables)};
    const std::int64_t num_spans = shape.num_times > 0 ? draw(0, 3) : 0;  // may overlap
    for (std::int64_t s = 0; s < num_spans; ++s) {
      std::vector<std::int64_t>& usage = domain.usage.emplace_back();
      for (std::int64_t x = 0; x < size; ++x) usage.push_back(draw(0, 30));
      Span& span = variable.spans.emplace_back();
      span.start = static_cast<std::int32_t>(draw(0, shape.num_times - 1));
      span.end = static_cast<std::int32_t>(draw(span.start + 1, shape.num_times));
    }
    network.domains.push_back(std::move(domain));
    network.variables.push_back(variable);
  }
  const auto project = [&](std::int32_t variable, std::int32_t states) {
    Projection projection;
    for (std::int32_t x = 0; x < network.domain(variable).size(); ++x) {
      projection.push_back(static_cast<std::int32_t>(draw(0, states - 1)));
    }
    network.projections.push_back(projection);
    return static_cast<std::int32_t>(network.projections.size()) - 1;
  };
  for (std::int32_t u = 0; u < shape.num_variables; ++u) {
    for (std::int32_t v = u + 1; v < shape.num_variables; ++v) {
      for (int copies = 0; copies < 2 && draw(1, 100) <= shape.percent_edges; ++copies) {
        Table table{static_cast<std::int32_t>(draw(1, 4)), static_cast<std::int32_t>(draw(1, 4)), {}};
        for (std::int32_t i = 0; i < table.rows * table.cols; ++i) {
          const bool forbidden = draw(1, 100) <= shape.percent_forbidden;
          table.costs.push_back(forbidden ? kForbidden : draw(0, shape.max_cost));
        }
        const bool swapped = draw(0, 1) == 1;
        const std::int32_t a = swapped ? v : u;
        const std::int32_t b = swapped ? u : v;
        network.edges.push_back(
            {a, b, static_cast<std::int32_t>(network.tables.size()), project(a, table.rows), project(b, table.cols)});
        network.tables.push_back(std::move(table));
        if (draw(0, 3) > 0) break;
      }
    }
  }
  if (shape.num_times > 0) {
    std::int64_t most = 0;
    for (std::int32_t v = 0; v < network.num_variables(); ++v) {
      for (const std::vector<std::int64_t>& usage : network.domain(v).usage) {
        most += *std::max_element(usage.begin(), usage.end());
      }
    }
    network.usage_limit = most * shape.percent_limit / 100;
  }
  return network;
}

/// The least cost of any assignment, by trying all. kForbidden if none is allowed.
inline Cost exhaustive_optimum(const CostNetwork& network) {
  Assignment assignment(network.variables.size(), 0);
  Cost best = kForbidden;
  while (true) {
    best = std::min(best, evaluate(network, assignment));
    std::size_t v = 0;
    while (v < assignment.size() && ++assignment[v] == network.domain(static_cast<std::int32_t>(v)).size()) {
      assignment[v++] = 0;
    }
    if (v == assignment.size()) return best;
  }
}

}  // namespace autopar::engine::testing
