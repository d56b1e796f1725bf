#include "launch/random_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "io/file.h"
#include "launch/cli.h"
#include "launch/task.h"

namespace autopar::launch {
namespace {

using engine::Cost;
using engine::kForbidden;

/// Two copies of one variable.
engine::CostNetwork twins() {
  engine::CostNetwork network;
  network.domains = {{{5, kForbidden, 7}, {{1, 2, 3}}, {}}};
  network.variables.resize(2);
  network.variables[0].domain = network.variables[1].domain = 0;
  network.variables[1].spans = {{2, 5}};
  network.variables[0].spans = {{0, 3}};
  network.tables = {{1, 1, {kForbidden}}};
  network.usage_limit = 4;
  return network;
}

std::vector<Cost> costs(std::uint64_t seed, std::int32_t variable) {
  return with_random_costs(twins(), seed).domain(variable).costs;
}

TEST(RandomCostsTest, seeds_variables_and_values_have_costs_of_their_own) {
  EXPECT_EQ(costs(1, 0), costs(1, 0));
  EXPECT_NE(costs(1, 0)[0], costs(2, 0)[0]);
  EXPECT_NE(costs(1, 0)[0], costs(1, 1)[0]);
  EXPECT_NE(costs(1, 0)[0], costs(1, 0)[2]);
}

TEST(RandomCostsTest, what_is_forbidden_or_used_stays) {
  const engine::CostNetwork network = with_random_costs(twins(), 3);
  for (const std::int32_t variable : {0, 1}) {
    const engine::Domain& domain = network.domain(variable);
    EXPECT_EQ(domain.costs[1], kForbidden);
    EXPECT_GE(domain.costs[0], 0);
    EXPECT_LT(domain.costs[0], kForbidden);
    EXPECT_EQ(domain.usage, twins().domains[0].usage);
    EXPECT_EQ(network.variables[static_cast<std::size_t>(variable)].spans,
              twins().variables[static_cast<std::size_t>(variable)].spans);
  }
  EXPECT_EQ(network.tables, twins().tables);
  EXPECT_EQ(network.usage_limit, 4);
}

/// Values of all variables together.
std::size_t num_values(const Arguments& arguments) {
  Task task = read_task(arguments, read_task_files(arguments, io::read_file(arguments.model)));
  build_task(task);
  std::size_t count = 0;
  for (std::int32_t v = 0; v < task.model.network.num_variables(); ++v) {
    count += task.model.network.domain(v).costs.size();
  }
  return count;
}

TEST(RandomCostsTest, strategies_that_are_never_best_are_choices_too) {
  Arguments arguments;
  arguments.model = AUTOPAR_SOURCE_DIR "/tests/models/transformer.json";
  arguments.cluster = AUTOPAR_SOURCE_DIR "/tests/io/cluster.json";
  arguments.mesh = parse_mesh("2,2");
  const std::size_t pruned = num_values(arguments);
  arguments.random_plan = 1;
  EXPECT_GT(num_values(arguments), pruned);
}

}  // namespace
}  // namespace autopar::launch
