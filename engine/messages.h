#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/block.h"
#include "engine/cuts.h"
#include "engine/join.h"
#include "engine/neighbourhood_search.h"
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
CostNetwork unpack_network(const std::string& bytes);
NewsMessage unpack_news(const std::string& bytes);
TaskMessage unpack_task(const std::string& bytes);
ResultMessage unpack_result(const std::string& bytes);

}  // namespace autopar::engine
