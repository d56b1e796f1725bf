#pragma once

#include <memory>
#include <string>
#include <vector>

#include "costs/redistribute.h"
#include "io/write_plan.h"
#include "launch/cli.h"
#include "partition/build_network.h"
#include "partition/problem.h"

namespace autopar::launch {

/// What rank 0 works on: the problem that the input files state, and its cost network.
struct Task {
  partition::Problem problem;
  io::PlanSource source;
  std::unique_ptr<costs::Redistributor> redistributor;
  partition::ModelNetwork model;
  double read_s = 0;
  double build_s = 0;
};

/// The texts of all files that state a problem: rank 0 reads them once, for all searches and ranks.
struct TaskFiles {
  std::string model;
  std::string cluster_path;  ///< of `cluster`; empty: the model file has the description in it, or none
  std::string cluster;
  std::string constraints;  ///< only read if arguments.constraints names a file
  std::string pins;         ///< a constraints file's text, over those; empty: none
  std::string pins_name;    ///< for messages: where they come from
};

/// `model`: the text of the model file. Throws io::InputError.
TaskFiles read_task_files(const Arguments& arguments, std::string model);

/// Checks the problem. Throws io::InputError.
Task read_task(const Arguments& arguments, const TaskFiles& files);

/// The cluster that the files or arguments name. Throws io::InputError.
costs::Cluster read_task_cluster(const Arguments& arguments, const TaskFiles& files);

/// Refuses an output path that is an input's, or that cannot be written. Throws io::InputError.
void check_output(const Arguments& arguments);

/// Prices the choices. Throws partition::PinError.
void build_task(Task& task);

}  // namespace autopar::launch
