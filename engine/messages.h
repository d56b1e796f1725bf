#pragma once

#include <cstdint>
#include <string>

#include "engine/block.h"
#include "engine/solve.h"

/// What ranks say to each other, as byte strings (cereal, portable binary).
namespace autopar::engine {

/// Coordinator to worker: search this block. Or, with `last`, there will be no more.
struct TaskMessage {
  bool last = false;
  Status status = Status::kNoSolution;  ///< with `last`: how the search ended
  std::int32_t id = -1;
  double seconds_left = 0;  ///< 0: no limit
  BlockOptions options;
  Block block;
};

/// Worker to coordinator.
struct ResultMessage {
  std::int32_t id = -1;
  BlockResult result;
};

std::string pack(const TaskMessage& message);
std::string pack(const ResultMessage& message);
TaskMessage unpack_task(const std::string& bytes);
ResultMessage unpack_result(const std::string& bytes);

}  // namespace autopar::engine
