#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace autopar::engine {

/// A launcher started several processes that MPI cannot join to one world. Every one of them throws; the text, which
/// says what to do, is empty on all but the first.
class LaunchError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Who started this process, as far as the environment tells.
struct Launcher {
  enum class Kind {
    kNone,     ///< nobody who wants MPI: this is a world of one rank
    kOpenMpi,  ///< Open MPI's mpirun
    kPmix,     ///< srun --mpi=pmix, prterun
    kSlurm,    ///< srun without PMIx
    kOther     ///< Hydra's mpiexec, aprun, PALS, flux
  };
  Kind kind = Kind::kNone;
  int num_processes = 0;  ///< that were started together; 0: it doesn't tell
  bool is_first = true;   ///< of these
  std::string slurm_mpi;  ///< of kSlurm: what --mpi was
};

Launcher find_launcher(const std::function<const char*(const char*)>& variable);

/// What to say if MPI (a library's name and version) cannot join the processes of `launcher`.
std::string launch_fault(const Launcher& launcher, const std::string& mpi);

}  // namespace autopar::engine
