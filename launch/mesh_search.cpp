#include "launch/mesh_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <tuple>
#include <utility>

#include "costs/meshes.h"
#include "io/input_error.h"
#include "io/read_mesh.h"
#include "launch/text_table.h"
#include "launch/units.h"

namespace autopar::launch {
namespace {

using engine::Cost;
using engine::kForbidden;
using engine::Status;
using partition::PlanSearchResult;

constexpr std::size_t kMostMeshes = 200;
constexpr double kFirstGap = 0.03;  // of the first look at each mesh

class Chooser {
 public:
  Chooser(const std::vector<costs::Mesh>& meshes, const Arguments& arguments, const std::string& text,
          partition::SharedSolver& solver)
      : arguments_(arguments), text_(text), solver_(solver) {
    for (const costs::Mesh& mesh : meshes) meshes_.push_back({mesh, {}, 0, {}});
  }

  MeshSearch run() {
    for (io::MeshOutcome& mesh : meshes_) look_at(mesh);
    if (!best_) std::rethrow_exception(first_error_);
    std::ranges::stable_sort(meshes_, {}, &io::MeshOutcome::bound);
    for (io::MeshOutcome& mesh : meshes_) {
      if (mesh.left_out.empty() && !is_closed(mesh) && !solver_.is_out_of_time()) {
        search(mesh, best_cost(), arguments_.engine.gap);
      }
    }
    return conclude();
  }

 private:
  struct Candidate {
    Task task;
    PlanSearchResult found;
  };

  Cost best_cost() const { return best_ && best_->found.plan ? best_->found.plan->cost_ps : kForbidden; }

  /// Whether nothing on the mesh is better than the best of all by more than the gap that was asked for.
  bool is_closed(const io::MeshOutcome& mesh) const {
    if (mesh.bound >= kForbidden) return true;
    return best_cost() < kForbidden &&
           static_cast<double>(best_cost() - mesh.bound) <= arguments_.engine.gap * static_cast<double>(best_cost());
  }

  void look_at(io::MeshOutcome& mesh) {
    try {
      search(mesh, kForbidden, std::max(arguments_.engine.gap, kFirstGap));
    } catch (const io::InputError& error) {
      leave_out(mesh, error);
    } catch (const partition::PinError& error) {
      leave_out(mesh, error);
    }
  }

  void leave_out(io::MeshOutcome& mesh, const std::exception& error) {
    mesh.left_out = error.what();
    if (!first_error_) first_error_ = std::current_exception();
  }

  /// For plans that cost less than `cutoff`.
  void search(io::MeshOutcome& mesh, Cost cutoff, double gap) {
    Arguments on_mesh = arguments_;
    on_mesh.mesh = mesh.mesh;
    Candidate candidate{read_task(on_mesh, text_), {}};
    const Task& task = candidate.task;
    build_task(candidate.task);
    engine::Options options = arguments_.engine;
    options.cutoff = cutoff;
    options.gap = gap;
    candidate.found = partition::search_plan({task.problem, *task.redistributor, &task.model}, options, solver_);
    const PlanSearchResult& found = candidate.found;
    mesh.bound = std::max(mesh.bound, found.bound);
    if (found.status == Status::kInfeasible) mesh.bound = std::max(mesh.bound, cutoff);
    if (found.plan) mesh.cost = std::min(mesh.cost.value_or(kForbidden), found.plan->cost_ps);
    stats_.add(found.stats);
    read_s_ += task.read_s;
    build_s_ += task.build_s;
    if (!best_ || (found.plan && found.plan->cost_ps < best_cost())) best_.emplace(std::move(candidate));
  }

  MeshSearch conclude() {
    Cost bound = kForbidden;
    for (const io::MeshOutcome& mesh : meshes_) {
      if (mesh.left_out.empty()) bound = std::min(bound, mesh.bound);
    }
    std::ranges::stable_sort(meshes_, {}, [](const io::MeshOutcome& mesh) {
      return std::tuple(!mesh.left_out.empty(), mesh.cost.value_or(kForbidden), mesh.bound);
    });
    PlanSearchResult& found = best_->found;
    found.bound = std::min(bound, best_cost());
    found.stats = stats_;
    if (found.plan) {
      const double gap = static_cast<double>(best_cost() - found.bound);
      const bool is_proven = gap <= arguments_.engine.gap * static_cast<double>(best_cost());
      found.status = is_proven                  ? Status::kOptimal
                     : solver_.is_out_of_time() ? Status::kLimitReached
                                                : Status::kNotProven;
    } else {
      found.status = bound >= kForbidden ? Status::kInfeasible : Status::kNoSolution;
    }
    best_->task.read_s = read_s_;
    best_->task.build_s = build_s_;
    return {std::move(best_->task), std::move(found), std::move(meshes_)};
  }

  const Arguments& arguments_;
  const std::string& text_;
  partition::SharedSolver& solver_;
  std::vector<io::MeshOutcome> meshes_;
  std::optional<Candidate> best_;  // until there is a plan: the first
  engine::Stats stats_;
  double read_s_ = 0;
  double build_s_ = 0;
  std::exception_ptr first_error_;
};

}  // namespace

std::vector<costs::Mesh> meshes_to_choose_from(const Arguments& arguments, const std::string& text) {
  std::vector<costs::Mesh> meshes =
      costs::meshes_of(arguments.devices, arguments.max_mesh_dims, read_task_cluster(arguments, text));
  if (meshes.empty() || meshes.size() > kMostMeshes) {
    throw io::InputError("--devices", "",
                         fmt::format("{} devices have {} meshes of up to {} dims that fit the cluster, and 1 to {} can "
                                     "be searched together; give another --max-mesh-dims, or a --mesh",
                                     arguments.devices, meshes.size(), arguments.max_mesh_dims, kMostMeshes));
  }
  for (costs::Mesh& mesh : meshes) mesh.dim_names = io::default_dim_names(mesh.shape.size());
  return meshes;
}

MeshSearch search_meshes(const std::vector<costs::Mesh>& meshes, const Arguments& arguments, const std::string& text,
                         partition::SharedSolver& solver) {
  return Chooser(meshes, arguments, text, solver).run();
}

std::string mesh_table(const std::vector<io::MeshOutcome>& meshes) {
  std::vector<std::vector<std::string>> rows{{"mesh", "plan found", "none is better than"}};
  for (const io::MeshOutcome& mesh : meshes) {
    const std::string name = mesh_text(mesh.mesh);
    if (!mesh.left_out.empty()) {
      rows.push_back({name, "left out: " + mesh.left_out});
      continue;
    }
    const bool has_plans = mesh.bound < kForbidden;
    rows.push_back({name, mesh.cost ? time_text(*mesh.cost) : (has_plans ? "–" : "none fits"),
                    has_plans ? time_text(mesh.bound) : "–"});
  }
  return text_table(rows, rows.size());
}

}  // namespace autopar::launch
