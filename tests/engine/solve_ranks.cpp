// Solves many random networks on the ranks and threads it is started with and writes every assignment to a file.
// solve_ranks.sh compares the files of different rank and thread counts and with exhaustive search (`--check`).
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>

#include "engine/comm.h"
#include "engine/solve.h"
#include "tests/engine/random_network.h"

namespace {

using namespace autopar::engine;

constexpr std::uint32_t kNumNetworks = 240;

testing::Shape shape_of(std::uint32_t seed) {
  testing::Shape shape;
  shape.num_variables = 9;
  shape.max_domain = 3;
  shape.percent_edges = 30 + 20 * static_cast<int>(seed % 4);
  shape.percent_forbidden = 3;
  shape.max_cost = seed % 3 == 0 ? 2 : 50;
  shape.num_times = static_cast<int>(seed % 5);
  shape.percent_limit = 45;
  return shape;
}

}  // namespace

int main(int argc, char** argv) {
  Comm comm(argc, argv);
  if (argc < 3) {
    std::cerr << "usage: solve_ranks OUTPUT THREADS [--check]\n";
    return 2;
  }
  Options options;
  options.threads = std::atoi(argv[2]);
  const bool check = argc > 3 && std::strcmp(argv[3], "--check") == 0;
  std::ofstream out;
  if (comm.rank() == 0) out.open(argv[1]);
  for (std::uint32_t seed = 0; seed < kNumNetworks; ++seed) {
    const CostNetwork network = testing::random_network(seed, shape_of(seed));
    options.max_rows = seed % 2 == 0 ? std::size_t{1} << 20 : 8;
    const Solution solution = solve(network, options, comm);
    if (comm.rank() != 0) continue;
    out << seed << ' ' << static_cast<int>(solution.status) << ' ' << solution.cost << ' ' << solution.bound << ' '
        << solution.stats.branch_nodes << " :";
    for (std::int32_t value : solution.assignment) out << ' ' << value;
    out << '\n';
    if (check && solution.cost != testing::exhaustive_optimum(network)) {
      std::cerr << "seed " << seed << ": cost " << solution.cost << ", exhaustive search finds "
                << testing::exhaustive_optimum(network) << '\n';
      comm.abort(1);
    }
  }
  return out.bad() ? 1 : 0;
}
