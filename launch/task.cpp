#include "launch/task.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "costs/fusion.h"
#include "io/file.h"
#include "io/input_error.h"
#include "io/read_cluster.h"
#include "io/read_constraints.h"
#include "io/read_mesh.h"
#include "io/read_model.h"
#include "launch/stopwatch.h"

namespace autopar::launch {
namespace {

costs::Mesh choose_mesh(const Arguments& arguments, const io::ModelFile& model) {
  if (!arguments.mesh) {
    if (!model.mesh)
      throw io::InputError(arguments.model, "", "the model file has no mesh; give one, such as --mesh 8,4");
    return *model.mesh;
  }
  costs::Mesh mesh = *arguments.mesh;
  if (mesh.dim_names.empty()) {
    // Constraints may speak of the model file's names.
    const bool same_dims = model.mesh && model.mesh->shape.size() == mesh.shape.size();
    mesh.dim_names = same_dims ? model.mesh->dim_names : io::default_dim_names(mesh.shape.size());
  }
  return mesh;
}

io::ClusterFile choose_cluster(const Arguments& arguments, const TaskFiles& files, const io::ModelFile& model) {
  if (!files.cluster_path.empty()) return io::parse_cluster(files.cluster_path, files.cluster);
  if (model.inline_cluster) return *model.inline_cluster;
  throw io::InputError(arguments.model, "", "the model file names no cluster; give one, such as --cluster h100");
}

}  // namespace

void check_output(const Arguments& arguments) {
  for (const std::string& input : {arguments.model, arguments.constraints, arguments.cluster}) {
    std::error_code error;
    if (!input.empty() && std::filesystem::equivalent(input, arguments.output, error)) {
      throw io::InputError(arguments.output, "", "the output would overwrite an input file");
    }
  }
  io::check_writable(arguments.output);
}

TaskFiles read_task_files(const Arguments& arguments, std::string model) {
  TaskFiles files;
  if (!arguments.cluster.empty()) {
    files.cluster_path = io::cluster_path(arguments.cluster, "--cluster");
  } else if (const std::string name = io::cluster_name_of(arguments.model, model); !name.empty()) {
    files.cluster_path = io::cluster_path(name, arguments.model + ": cluster");
  }
  if (!files.cluster_path.empty()) files.cluster = io::read_file(files.cluster_path);
  if (!arguments.constraints.empty()) files.constraints = io::read_file(arguments.constraints);
  files.model = std::move(model);
  return files;
}

costs::Cluster read_task_cluster(const Arguments& arguments, const TaskFiles& files) {
  return choose_cluster(arguments, files, io::read_model(arguments.model, files.model)).cluster;
}

Task read_task(const Arguments& arguments, const TaskFiles& files) {
  const Stopwatch watch;
  Task task;
  io::ModelFile model = io::read_model(arguments.model, files.model);
  io::ClusterFile cluster = choose_cluster(arguments, files, model);
  task.problem.mesh = choose_mesh(arguments, model);
  std::vector<io::JsonValue> layers;
  if (model.constraints) layers.push_back(*model.constraints);
  std::optional<io::ConstraintsFile> constraints;
  if (!arguments.constraints.empty()) {
    constraints = io::read_constraints(arguments.constraints, files.constraints);
    layers.push_back(constraints->constraints);
    task.source.constraints_hash = constraints->hash;
  }
  std::optional<io::ConstraintsFile> pins;
  if (!files.pins.empty()) {
    pins = io::read_constraints(files.pins_name, files.pins);
    layers.push_back(pins->constraints);
    task.source.constraints_hash = io::content_hash(files.constraints + files.pins);
  }
  task.problem.pins = io::resolve_constraints(layers, model.graph_file, task.problem.mesh, cluster.cluster);
  task.problem.graph = std::move(model.graph_file.graph);
  if (const std::vector<char>& compiled = task.problem.pins.compiled; !compiled.empty()) {
    costs::fuse(task.problem.graph, compiled);
  }
  task.problem.cluster = std::move(cluster.cluster);
  task.problem.has_overlap = arguments.has_overlap;
  task.problem.keep_dominated = arguments.random_plan.has_value();
  task.source.is_random = arguments.random_plan.has_value();
  task.source.producer = "autopar-search " AUTOPAR_VERSION;
  task.source.model_hash = std::move(model.hash);
  task.source.cluster_hash = std::move(cluster.hash);
  task.source.aliases = std::move(model.graph_file.aliases);
  task.read_s = watch.seconds();
  return task;
}

void build_task(Task& task) {
  const Stopwatch watch;
  task.redistributor = std::make_unique<costs::Redistributor>(task.problem.cluster, task.problem.mesh);
  task.model = partition::build_network(task.problem, *task.redistributor);
  task.build_s = watch.seconds();
}

}  // namespace autopar::launch
