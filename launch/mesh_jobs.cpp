#include "launch/mesh_jobs.h"

#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <sstream>
#include <utility>

#include "costs/rules/rule.h"
#include "engine/comm.h"
#include "engine/messages.h"
#include "io/input_error.h"
#include "launch/exit_codes.h"

namespace autopar::launch {
namespace {

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

template <class... Fields>
std::string to_bytes(const Fields&... fields) {
  std::ostringstream stream;
  cereal::PortableBinaryOutputArchive archive(stream);
  archive(fields...);
  return std::move(stream).str();
}

template <class... Fields>
void from_bytes(const std::string& bytes, Fields&... fields) {
  std::istringstream stream(bytes);
  cereal::PortableBinaryInputArchive archive(stream);
  archive(fields...);
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
  return to_bytes(job.mesh.shape, job.mesh.dim_names, job.cutoff, job.gap, job.seconds_left);
}

MeshJob unpack_mesh_job(const std::string& bytes) {
  MeshJob job;
  from_bytes(bytes, job.mesh.shape, job.mesh.dim_names, job.cutoff, job.gap, job.seconds_left);
  return job;
}

std::string pack(const MeshJobResult& result) {
  return to_bytes(result.failure, result.failure_text, engine::pack(result.outcome), engine::pack(result.record));
}

MeshJobResult unpack_mesh_job_result(const std::string& bytes) {
  MeshJobResult result;
  std::string outcome;
  std::string record;
  from_bytes(bytes, result.failure, result.failure_text, outcome, record);
  result.outcome = engine::unpack_solution(outcome);
  result.record = engine::unpack_record(record);
  return result;
}

std::string pack(const TaskFiles& files) {
  return to_bytes(files.model, files.cluster_path, files.cluster, files.constraints);
}

TaskFiles unpack_task_files(const std::string& bytes) {
  TaskFiles files;
  from_bytes(bytes, files.model, files.cluster_path, files.cluster, files.constraints);
  return files;
}

}  // namespace autopar::launch
