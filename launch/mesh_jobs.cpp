#include "launch/mesh_jobs.h"

#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <utility>

#include "costs/rules/rule.h"
#include "engine/bytes.h"
#include "engine/comm.h"
#include "engine/messages.h"
#include "io/input_error.h"
#include "launch/exit_codes.h"

namespace autopar::launch {
namespace {

using Input = cereal::PortableBinaryInputArchive;
using Output = cereal::PortableBinaryOutputArchive;

Arguments with_mesh(Arguments arguments, const costs::Mesh& mesh) {
  arguments.mesh = mesh;
  return arguments;
}

partition::PlanSearchResult search(const Task& task, const MeshJob& job, const Arguments& arguments,
                                   partition::SharedSolver& solver) {
  engine::Options options = arguments.engine;
  options.cutoff = job.cutoff;
  options.gap = job.gap;
  return partition::search_plan({task.problem, *task.redistributor, &task.model}, options, solver);
}

}  // namespace

MeshJobResult do_mesh_job(const MeshJob& job, const Arguments& arguments, const TaskFiles& files,
                          engine::Timing& timing) {
  MeshJobResult result;
  engine::Comm alone;
  try {
    Task task = read_task(with_mesh(arguments, job.mesh), files);
    build_task(task);
    engine::Options options = arguments.engine;
    options.time_limit_s = job.seconds_left;
    partition::SharedSolver solver(options, alone);
    const partition::PlanSearchResult found = search(task, job, arguments, solver);
    result.outcome.status = found.status;
    result.outcome.bound = found.bound;
    if (found.plan) result.outcome.cost = found.plan->cost_ps;
    result.outcome.stats = found.stats;
    result.record = solver.take_record();
    timing.add_own(alone.timing());
    timing.add(engine::Phase::kRead, task.read_s);
    timing.add(engine::Phase::kPrice, task.build_s);
  } catch (const io::InputError& error) {
    result.failure = kExitBadInput;
    result.failure_text = error.what();
  } catch (const costs::NodeError& error) {
    result.failure = kExitBadInput;
    result.failure_text = arguments.model + ": " + error.what();
  } catch (const partition::PinError& error) {
    result.failure = kExitInfeasible;
    result.failure_text = error.what();
  }
  return result;
}

SearchedMesh searched_mesh(const MeshJob& job, engine::SolveRecord record, const Arguments& arguments,
                           const TaskFiles& files) {
  engine::Comm alone;
  SearchedMesh searched{read_task(with_mesh(arguments, job.mesh), files), {}};
  build_task(searched.task);
  partition::SharedSolver solver(arguments.engine, alone);
  solver.replay(std::move(record));
  searched.found = search(searched.task, job, arguments, solver);
  return searched;
}

std::string pack(const MeshJob& job) {
  return engine::to_bytes<Output>(job.mesh.shape, job.mesh.dim_names, job.cutoff, job.gap, job.seconds_left);
}

MeshJob unpack_mesh_job(const std::string& bytes) {
  MeshJob job;
  engine::from_bytes<Input>(bytes, job.mesh.shape, job.mesh.dim_names, job.cutoff, job.gap, job.seconds_left);
  return job;
}

std::string pack(const MeshJobResult& result) {
  return engine::to_bytes<Output>(result.failure, result.failure_text, engine::pack(result.outcome),
                                  engine::pack(result.record));
}

MeshJobResult unpack_mesh_job_result(const std::string& bytes) {
  MeshJobResult result;
  std::string outcome;
  std::string record;
  engine::from_bytes<Input>(bytes, result.failure, result.failure_text, outcome, record);
  result.outcome = engine::unpack_solution(outcome);
  result.record = engine::unpack_record(record);
  return result;
}

std::string pack(const TaskFiles& files) {
  return engine::to_bytes<Output>(files.model, files.cluster_path, files.cluster, files.constraints, files.pins,
                                  files.pins_name);
}

TaskFiles unpack_task_files(const std::string& bytes) {
  TaskFiles files;
  engine::from_bytes<Input>(bytes, files.model, files.cluster_path, files.cluster, files.constraints, files.pins,
                            files.pins_name);
  return files;
}

}  // namespace autopar::launch
