#pragma once

#include <string>
#include <vector>

#include "engine/solve.h"
#include "io/read_problem.h"
#include "io/write_solution.h"
#include "launch/checkpoint.h"
#include "launch/cli.h"
#include "launch/progress.h"

namespace autopar::launch {

/// What rank 0 works on if the input is a cost table.
struct TableTask {
  io::TableProblem problem;
  io::SolutionSource source;
  double read_s = 0;
};

/// `text`: the input file's. Throws io::InputError, also for options that only a model can have.
TableTask read_table_task(const Arguments& arguments, const std::string& text);

struct TableResult {
  engine::Solution solution;
  std::vector<io::TimelinePoint> timeline;
  double solve_s = 0;
};

/// Searches on all ranks; the others are in help_solve_tables().
/// What it finds is in `checkpoint`, and it goes on from what is there.
TableResult solve_tables(const TableTask& task, const Arguments& arguments, engine::Comm& comm, ProgressReport& progress,
                         Checkpoint& checkpoint);

/// What the other ranks do meanwhile.
void help_solve_tables(const Arguments& arguments, engine::Comm& comm);

/// The solution as a person reads it.
std::string table_summary(const TableTask& task, const TableResult& result, const io::RunInfo& run);

/// Checks the solution file against the cost table, and prints what it comes to. Returns the exit code. Throws
/// io::InputError.
int check_tables(const Arguments& arguments);

}  // namespace autopar::launch
