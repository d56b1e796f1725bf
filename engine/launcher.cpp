#include "engine/launcher.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace autopar::engine {
namespace {

int number(const char* text) {
  int value = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), value);
  return value;
}

}  // namespace

Launcher find_launcher(const std::function<const char*(const char*)>& variable) {
  const auto launcher = [&](Launcher::Kind kind, const char* size, const char* rank) {
    return Launcher{kind, number(variable(size)), number(variable(rank)) == 0, ""};
  };
  const auto has = [&](const char* name) { return variable(name) != nullptr; };
  // In this order: mpirun, prterun and Hydra reach other nodes by an srun of one process each.
  if (has("OMPI_COMM_WORLD_SIZE")) {
    return launcher(Launcher::Kind::kOpenMpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK");
  }
  if (has("PMIX_RANK")) return launcher(Launcher::Kind::kPmix, "SLURM_STEP_NUM_TASKS", "PMIX_RANK");
  const bool is_slurm = has("SLURM_STEP_ID");
  if (is_slurm || has("PMI_RANK")) {
    const char* rank = has("PMI_RANK") ? "PMI_RANK" : "SLURM_PROCID";
    const char* size = has("PMI_SIZE") ? "PMI_SIZE" : "SLURM_STEP_NUM_TASKS";
    Launcher found = launcher(is_slurm ? Launcher::Kind::kSlurm : Launcher::Kind::kOther, size, rank);
    found.slurm_mpi = has("SLURM_MPI_TYPE") ? variable("SLURM_MPI_TYPE") : "none";
    // Such as a shell by salloc or srun --pty, in which the program is started like anywhere else.
    if (found.num_processes == 1) found.kind = Launcher::Kind::kNone;
    return found;
  }
  for (const char* rank : {"PMI_FD", "ALPS_APP_PE", "PALS_RANKID", "FLUX_TASK_RANK"}) {
    if (has(rank)) return launcher(Launcher::Kind::kOther, "FLUX_JOB_SIZE", rank);
  }
  return {};
}

std::string launch_fault(const Launcher& launcher, const std::string& mpi) {
  if (launcher.kind == Launcher::Kind::kSlurm) {
    return fmt::format(
        "srun --mpi={} started {} processes, which {} cannot join to one search. Start them with \"srun --mpi=pmix\" "
        "(\"srun --mpi=list\" must name pmix), or with \"mpirun\" in place of srun (docs/slurm.md)",
        launcher.slurm_mpi, launcher.num_processes, mpi);
  }
  return fmt::format(
      "{} processes were started, but {} joins none of them to one search. Start them with the mpirun or mpiexec that "
      "belongs to this MPI, or with srun and an --mpi that it knows",
      launcher.num_processes, mpi);
}

}  // namespace autopar::engine
