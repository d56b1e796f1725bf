#include "launch/mesh_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "costs/meshes.h"
#include "engine/pool.h"
#include "engine/timing.h"
#include "io/input_error.h"
#include "io/read_mesh.h"
#include "launch/text_table.h"
#include "launch/units.h"

namespace autopar::launch {
namespace {

using engine::Cost;
using engine::kForbidden;
using engine::Status;

constexpr std::size_t kMostMeshes = 200;
constexpr double kFirstGap = 0.03;  // of the first look at each mesh
/// How many meshes are searched before all others, which then are cut off by the best plan on these.
constexpr std::size_t kPromising = 2;

/// Jobs of one round, done or taken from the checkpoint.
class JobRound : public engine::TaskRound {
 public:
  JobRound(std::string name, std::vector<MeshJob> jobs, const Arguments& arguments, const TaskFiles& files,
           Checkpoint& checkpoint, partition::SharedSolver& solver)
      : name_(std::move(name)),
        jobs_(std::move(jobs)),
        arguments_(arguments),
        files_(files),
        checkpoint_(checkpoint),
        solver_(solver) {
    results_.resize(jobs_.size());
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (const auto known = checkpoint.find(key(i))) {
        results_[i] = unpack_mesh_job_result(*known);
      } else {
        open_.push_back(i);
      }
    }
  }

  std::size_t size() const override { return open_.size(); }
  std::string name(std::size_t task) const override { return key(open_[task]); }
  std::string pack(std::size_t task) const override { return launch::pack(job_now(task)); }
  void run(std::size_t task) override { keep(task, do_mesh_job(job_now(task), arguments_, files_, solver_.timing())); }
  void take(std::size_t task, const std::string& result) override { keep(task, unpack_mesh_job_result(result)); }

  const std::vector<MeshJob>& jobs() const { return jobs_; }
  /// Per job; nothing if the time was over before it began.
  std::vector<std::optional<MeshJobResult>> take_results() { return std::move(results_); }

 private:
  std::string key(std::size_t job) const { return fmt::format("{} {}", name_, mesh_text(jobs_[job].mesh)); }

  MeshJob job_now(std::size_t task) const {
    MeshJob job = jobs_[open_[task]];
    job.seconds_left = solver_.deadline().seconds_left();
    return job;
  }

  void keep(std::size_t task, MeshJobResult result) {
    // What the time cut short is done again by the next run.
    if (!result.record.ended_late) checkpoint_.put(key(open_[task]), launch::pack(result));
    results_[open_[task]] = std::move(result);
  }

  std::string name_;
  std::vector<MeshJob> jobs_;
  const Arguments& arguments_;
  const TaskFiles& files_;
  Checkpoint& checkpoint_;
  partition::SharedSolver& solver_;
  std::vector<std::size_t> open_;  // jobs that the checkpoint does not have
  std::vector<std::optional<MeshJobResult>> results_;
};

class Chooser {
 public:
  Chooser(const std::vector<costs::Mesh>& meshes, const Arguments& arguments, const TaskFiles& files,
          partition::SharedSolver& solver, Checkpoint& checkpoint,
          const std::function<void(const engine::Progress&)>& progress)
      : arguments_(arguments), files_(files), solver_(solver), checkpoint_(checkpoint), progress_(progress) {
    for (const costs::Mesh& mesh : meshes) meshes_.push_back({mesh, {}, 0, {}});
    // More dims take longer, and what takes longest should begin first.
    std::ranges::stable_sort(
        meshes_, [](const io::MeshOutcome& a, const io::MeshOutcome& b) { return a.mesh.rank() > b.mesh.rank(); });
  }

  std::variant<MeshSearch, MeshFailure> run() {
    search("look at", all(), std::max(arguments_.engine.gap, kFirstGap));
    if (std::ranges::all_of(meshes_, [](const io::MeshOutcome& mesh) { return !mesh.left_out.empty(); })) {
      return first_failure_;
    }
    std::ranges::stable_sort(meshes_, {}, &io::MeshOutcome::bound);
    std::vector<std::size_t> promising = open();
    promising.resize(std::min(promising.size(), kPromising));
    search("search", promising, arguments_.engine.gap);
    std::vector<std::size_t> rest = open();
    std::erase_if(rest, [&](std::size_t i) { return std::ranges::find(promising, i) != promising.end(); });
    search("close", rest, arguments_.engine.gap);
    return conclude();
  }

 private:
  struct Best {
    MeshJob job;
    engine::SolveRecord record;
    Cost cost = kForbidden;
  };

  std::vector<std::size_t> all() const {
    std::vector<std::size_t> indices(meshes_.size());
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    return indices;
  }

  /// Meshes on which something may be better than the best of all by more than the gap that was asked for.
  std::vector<std::size_t> open() const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < meshes_.size(); ++i) {
      const io::MeshOutcome& mesh = meshes_[i];
      if (!mesh.left_out.empty() || mesh.bound >= kForbidden) continue;
      const auto gap = static_cast<double>(best_.cost - mesh.bound);
      if (best_.cost >= kForbidden || gap > arguments_.engine.gap * static_cast<double>(best_.cost)) found.push_back(i);
    }
    return found;
  }

  /// For plans that cost less than the best so far.
  void search(const std::string& name, const std::vector<std::size_t>& which, double gap) {
    std::vector<MeshJob> jobs;
    for (const std::size_t i : which) jobs.push_back({meshes_[i].mesh, best_.cost, gap, 0});
    JobRound round(name, std::move(jobs), arguments_, files_, checkpoint_, solver_);
    solver_.run(round, [&](std::size_t done, std::size_t total) { report(name, done, total); });
    std::vector<std::optional<MeshJobResult>> results = round.take_results();
    for (std::size_t i = 0; i < which.size(); ++i) {
      if (results[i]) learn(meshes_[which[i]], round.jobs()[i], std::move(*results[i]));
    }
  }

  void learn(io::MeshOutcome& mesh, const MeshJob& job, MeshJobResult result) {
    if (result.failure != 0) {
      mesh.left_out = result.failure_text;
      if (first_failure_.exit_code == 0) first_failure_ = {result.failure, result.failure_text};
      return;
    }
    const engine::Solution& outcome = result.outcome;
    mesh.is_searched = true;
    mesh.bound = std::max(mesh.bound, outcome.bound);
    if (outcome.status == Status::kInfeasible) mesh.bound = std::max(mesh.bound, job.cutoff);
    if (outcome.cost < kForbidden) mesh.cost = std::min(mesh.cost.value_or(kForbidden), outcome.cost);
    stats_.add(outcome.stats);
    if (outcome.cost < best_.cost || best_.job.mesh.shape.empty()) {
      best_ = {job, std::move(result.record), outcome.cost};
    }
  }

  MeshSearch conclude() {
    Cost bound = kForbidden;
    for (const io::MeshOutcome& mesh : meshes_) {
      if (mesh.left_out.empty()) bound = std::min(bound, mesh.bound);
    }
    std::ranges::stable_sort(meshes_, {}, [](const io::MeshOutcome& mesh) {
      return std::tuple(!mesh.left_out.empty(), mesh.cost.value_or(kForbidden), mesh.bound);
    });
    if (best_.job.mesh.shape.empty()) best_.job.mesh = meshes_.front().mesh;  // the time was over at once
    MeshSearch result{searched_mesh(best_.job, std::move(best_.record), arguments_, files_), std::move(meshes_)};
    partition::PlanSearchResult& found = result.best.found;
    found.bound = std::min(bound, best_.cost);
    found.stats = stats_;
    if (found.plan) {
      if (found.plan->cost_ps != best_.cost) throw std::logic_error("a search that was repeated ended otherwise");
      const auto gap = static_cast<double>(best_.cost - found.bound);
      const bool is_proven = gap <= arguments_.engine.gap * static_cast<double>(best_.cost);
      found.status = is_proven                  ? Status::kOptimal
                     : solver_.is_out_of_time() ? Status::kLimitReached
                                                : Status::kNotProven;
    } else {
      found.status = bound >= kForbidden ? Status::kInfeasible : Status::kNoSolution;
    }
    return result;
  }

  void report(const std::string& name, std::size_t done, std::size_t total) {
    if (!progress_) return;
    engine::Progress now;
    now.seconds = engine::process_seconds();
    now.cost = best_.cost;
    now.bound = 0;
    now.stage = name + " meshes";
    now.tasks_done = static_cast<std::int64_t>(done);
    now.tasks_total = static_cast<std::int64_t>(total);
    progress_(now);
  }

  const Arguments& arguments_;
  const TaskFiles& files_;
  partition::SharedSolver& solver_;
  Checkpoint& checkpoint_;
  const std::function<void(const engine::Progress&)>& progress_;
  std::vector<io::MeshOutcome> meshes_;
  Best best_;  // until there is a plan: the first that was searched
  engine::Stats stats_;
  MeshFailure first_failure_;
};

}  // namespace

std::vector<costs::Mesh> meshes_to_choose_from(const Arguments& arguments, const TaskFiles& files) {
  std::vector<costs::Mesh> meshes =
      costs::meshes_of(arguments.devices, arguments.max_mesh_dims, read_task_cluster(arguments, files));
  if (meshes.empty() || meshes.size() > kMostMeshes) {
    throw io::InputError("--devices", "",
                         fmt::format("{} devices have {} meshes of up to {} dims that fit the cluster, and 1 to {} can "
                                     "be searched together; give another --max-mesh-dims, or a --mesh",
                                     arguments.devices, meshes.size(), arguments.max_mesh_dims, kMostMeshes));
  }
  for (costs::Mesh& mesh : meshes) mesh.dim_names = io::default_dim_names(mesh.shape.size());
  return meshes;
}

std::variant<MeshSearch, MeshFailure> search_meshes(const std::vector<costs::Mesh>& meshes, const Arguments& arguments,
                                                    const TaskFiles& files, partition::SharedSolver& solver,
                                                    Checkpoint& checkpoint,
                                                    const std::function<void(const engine::Progress&)>& progress) {
  return Chooser(meshes, arguments, files, solver, checkpoint, progress).run();
}

std::string mesh_table(const std::vector<io::MeshOutcome>& meshes) {
  std::vector<std::vector<std::string>> rows{{"mesh", "plan found", "none is better than"}};
  for (const io::MeshOutcome& mesh : meshes) {
    const std::string name = mesh_text(mesh.mesh);
    if (!mesh.left_out.empty()) {
      rows.push_back({name, "left out: " + mesh.left_out});
      continue;
    }
    if (!mesh.is_searched) {
      rows.push_back({name, "not searched"});
      continue;
    }
    const bool has_plans = mesh.bound < kForbidden;
    rows.push_back({name, mesh.cost ? time_text(*mesh.cost) : (has_plans ? "–" : "none fits"),
                    has_plans ? time_text(mesh.bound) : "–"});
  }
  return text_table(rows, rows.size());
}

}  // namespace autopar::launch
