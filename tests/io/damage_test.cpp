#include <gtest/gtest.h>

#include <random>

#include "io/check_solution.h"
#include "io/json.h"
#include "io/read_constraints.h"
#include "io/read_model.h"
#include "io/read_problem.h"
#include "tests/io/tiny.h"

// Whatever happens to a file, reading it ends in a graph or an InputError: never in another exception, a crash or (with
// sanitizers) undefined behaviour.
namespace autopar::io {
namespace {

/// One random edit of `text`, of the kinds that hands and disks make: bytes, tokens and lines.
std::string damaged(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  static const std::vector<std::string> kTokens = {
      "null", "-1", "0", "1e400", "[]",   "{}",  "\"\"", "true", "9223372036854775807",
      "[",    "}",  ",", "\"x\"", "\\u0", "1.5", ":",    "\n",   "\"ref\""};
  const std::size_t at = below(text.size());
  const std::string token = kTokens[below(kTokens.size())];
  switch (below(5)) {
    case 0:
      text[at] = static_cast<char>(below(256));
      break;
    case 1:
      text.erase(at, below(40));
      break;
    case 2:
      text.insert(at, token);
      break;
    case 3: {  // a whole number or word
      const std::string stops = " ,:[]{}\n";
      const std::size_t begin = text.find_last_of(stops, at);
      const std::size_t end = std::min(text.find_first_of(stops, at), text.size());
      if (begin != std::string::npos && begin + 1 < end) text.replace(begin + 1, end - begin - 1, token);
      break;
    }
    default: {  // two lines change places
      const std::size_t other = text.find('\n', below(text.size()));
      const std::size_t line = text.find('\n', at);
      if (line != std::string::npos && other != std::string::npos && line < other) {
        text = text.substr(0, line) + text.substr(other) + text.substr(line, other - line);
      }
    }
  }
  return text;
}

TEST(DamageTest, a_damaged_model_is_read_or_refused) {
  const testing::Scratch scratch;
  const std::string text = testing::tiny_with(
      "\"cluster\": \"h100\"",
      R"json("cluster": "h100", "constraints": {"parameters": {"fc*": {"tp": "S(0)"}}, "memory_limit_bytes": 9})json");
  int num_refused = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    std::string copy = damaged(text, random);
    if (seed % 3 == 0) copy = damaged(copy, random);
    const std::string path = scratch.put("m.json", copy);
    try {
      const ModelFile model = read_model(path);
      if (model.constraints && model.mesh) {
        resolve_constraints({*model.constraints}, model.graph_file, *model.mesh, costs::Cluster{});
      }
    } catch (const InputError&) {
      ++num_refused;
    } catch (const std::exception& error) {
      FAIL() << "seed " << seed << ": " << error.what() << "\n" << copy;
    }
  }
  EXPECT_GT(num_refused, 1500);
}

TEST(DamageTest, a_damaged_cost_table_is_read_or_refused) {
  const std::string text = testing::slurp(AUTOPAR_SOURCE_DIR "/tests/iopddl/example.json");
  int num_refused = 0;
  for (unsigned seed = 0; seed < 20000; ++seed) {
    std::mt19937 random(seed);
    const std::string copy = damaged(text, random);
    try {
      is_problem(copy);
      const engine::CostNetwork network = read_problem("p.json", copy).network;
      engine::evaluate(network, engine::Assignment(network.variables.size(), 0));
      // What is accepted is JSON also for another parser.
      JsonDocument("p.json", copy);
    } catch (const InputError& error) {
      ++num_refused;
      EXPECT_EQ(std::string(error.what()).find("p.json: not JSON"), std::string::npos) << "seed " << seed << copy;
    } catch (const std::exception& error) {
      FAIL() << "seed " << seed << ": " << error.what() << "\n" << copy;
    }
  }
  EXPECT_GT(num_refused, 5000);
}

TEST(DamageTest, a_damaged_solution_is_checked_or_refused) {
  const std::string problem = testing::slurp(AUTOPAR_SOURCE_DIR "/tests/iopddl/example.json");
  const std::string text = R"({"format": "autopar-solution", "version": 1, "cost": 445, "choices": [0, 0, 2, 1, 0]})";
  int num_valid = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const std::string copy = damaged(text, random);
    try {
      num_valid += check_solution("p.json", problem, "s.json", copy).faults.empty() ? 1 : 0;
    } catch (const InputError&) {
    } catch (const std::exception& error) {
      FAIL() << "seed " << seed << ": " << error.what() << "\n" << copy;
    }
  }
  EXPECT_LT(num_valid, 1500);
}

}  // namespace
}  // namespace autopar::io
