#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costs/mesh.h"
#include "engine/presolve.h"
#include "engine/solve.h"

namespace autopar::launch {

struct Arguments {
  std::string model;                ///< or a cost table
  std::string solution;             ///< with `check`
  std::string output;               ///< empty: beside the model, as default_output() says
  std::optional<costs::Mesh> mesh;  ///< without dim names if only sizes were given
  std::int64_t devices = 0;         ///< on which the mesh is to be chosen; 0: it is given
  int max_mesh_dims = 3;            ///< of a mesh that is chosen
  std::string cluster;              ///< empty: the model file's
  std::string constraints;          ///< empty: none
  engine::Options engine;
  engine::PresolveSteps presolve;      ///< of a cost table
  bool is_deterministic = false;       ///< the same solution of a cost table on every machine
  std::string export_problem;          ///< where the model's cost table goes, which is wanted instead of a plan
  bool check = false;                  ///< nothing is searched for: `solution` is checked
  bool resume = false;                 ///< go on from the checkpoint, if there is one
  double checkpoint_interval_s = 120;  ///< 0: none is written
  std::string log_dir;                 ///< where each rank's log and times go; empty: nowhere
  bool reproducible = false;
  bool has_overlap = true;  ///< communication may hide behind compute
  bool quiet = false;
  bool verbose = false;
  std::optional<std::uint64_t> random_plan;  ///< the seed of a random plan, wanted instead of the best one
  std::vector<std::string> model_options;    ///< those given that only a model can have: "--mesh"
};

/// The command line, or what to say and return instead of working: help, the version, or a usage error.
struct CommandLine {
  Arguments arguments;
  std::optional<int> exit_code;
  std::string text;  ///< for stdout if exit_code is 0, else for stderr
};

CommandLine parse_command_line(int argc, char** argv);

/// "folder/model.json" and "folder/model.json.gz" give "folder/model.plan.json" for `kind` "plan".
std::string default_output(const std::string& model, std::string_view kind);

/// "8,4" or "dp=8,tp=4". Throws InputError.
costs::Mesh parse_mesh(const std::string& text);

}  // namespace autopar::launch
