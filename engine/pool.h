#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "engine/block.h"
#include "engine/comm.h"
#include "engine/solve.h"

/// Tasks that all ranks share, handed out by rank 0. On every rank a thread of its own works, so that the one that
/// talks to MPI always answers.
namespace autopar::engine {

/// A round of independent tasks, the longest first. What travels are byte strings.
class TaskRound {
 public:
  virtual ~TaskRound() = default;
  virtual std::size_t size() const = 0;
  virtual std::string name(std::size_t task) const = 0;
  /// The task for another rank, which gives it to its TaskFunction.
  virtual std::string pack(std::size_t task) const = 0;
  /// Does the task here, on the working thread.
  virtual void run(std::size_t task) = 0;
  /// What another rank's TaskFunction returned.
  virtual void take(std::size_t task, const std::string& result) = 0;
};

/// Called after each task on rank 0: how many of how many are done.
using Report = std::function<void(std::size_t done, std::size_t total)>;

/// Does all tasks on all ranks, which are in serve(). Rank 0 only. While quick tasks are plenty each rank has a second
/// one waiting, so that it needs no round trip between two; long ones and the last are handed out one by one. When the
/// time is over, tasks that nobody began are left out, and the other ranks hear of a stop.
void run_on_all_ranks(TaskRound& round, const Deadline& deadline, Comm& comm, const Report& report);

/// Does a task, on the working thread.
using TaskFunction = std::function<std::string(const std::string& task)>;

/// What the other ranks do until dismissed. Returns how the search ended.
Status serve(Comm& comm, const TaskFunction& function);

/// Ends serve() on all other ranks. Rank 0 only.
void dismiss(Status status, Comm& comm);

}  // namespace autopar::engine
