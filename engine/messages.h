#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/block.h"
#include "engine/cuts.h"
#include "engine/join.h"
#include "engine/neighbourhood_search.h"
#include "engine/solve.h"
#include "engine/solve_record.h"
#include "engine/timing.h"

/// What ranks say to each other, as byte strings (cereal, portable binary).
namespace autopar::engine {

/// Coordinator to worker.
struct TaskMessage {
  enum class Kind : std::uint8_t {
    kTask,  ///< do this
    kStop,  ///< end what you do early; `id` is the signal that asked for it
    kLast,  ///< there will be no more; `status` is how the search ended
  };
  Kind kind = Kind::kTask;
  std::int32_t id = -1;
  Status status = Status::kNoSolution;
  std::string body;  ///< of a task: what it is, for instance a BlockTask
};

/// Worker to coordinator.
struct ResultMessage {
  std::int32_t id = -1;
  double seconds = 0;  ///< that the task took
  std::string body;
};

/// A task: search this block. Its result is a BlockResult.
struct BlockTask {
  double seconds_left = 0;  ///< 0: no limit
  BlockOptions options;
  Block block;
};

/// Between the ranks of an anytime search.
struct NewsMessage {
  enum class Kind : std::uint8_t { kPart, kCut, kJoin, kGuide, kBest, kEnd };
  Kind kind = Kind::kEnd;
  LiveValues live;                      ///< kPart: the next stage is what this is of the last one
  std::vector<Cut> cuts;                ///< kCut: or these limits added
  std::vector<Join> joins;              ///< kJoin: or what this makes of it
  Guide guide;                          ///< kGuide
  Assignment assignment;                ///< kBest
  Status status = Status::kNoSolution;  ///< kEnd: how the search ended
};

std::string pack(const CostNetwork& network);
std::string pack(const NewsMessage& message);
std::string pack(const TaskMessage& message);
std::string pack(const ResultMessage& message);
std::string pack(const BlockTask& task);
std::string pack(const BlockResult& result);
std::string pack(const Timing& timing);
std::string pack(const Solution& solution);
std::string pack(const SolveRecord& record);
CostNetwork unpack_network(const std::string& bytes);
NewsMessage unpack_news(const std::string& bytes);
TaskMessage unpack_task(const std::string& bytes);
ResultMessage unpack_result(const std::string& bytes);
BlockTask unpack_block_task(const std::string& bytes);
BlockResult unpack_block_result(const std::string& bytes);
Timing unpack_timing(const std::string& bytes);
Solution unpack_solution(const std::string& bytes);
SolveRecord unpack_record(const std::string& bytes);

}  // namespace autopar::engine
