#pragma once

#include <cstdint>
#include <vector>

#include "partition/holdings.h"
#include "partition/plan.h"
#include "partition/problem.h"

namespace autopar::partition {

/// One tensor, or the buffers of one redistribution, in the memory of one device.
struct HeldTensor {
  Holding holding;
  std::int64_t bytes = 0;
};

/// The memory of one device while a plan's step runs.
struct HeldMemory {
  std::vector<HeldTensor> tensors;  ///< those that take any
  std::vector<std::int64_t> bytes;  ///< per time point of the Timeline
  std::int32_t peak_time = 0;       ///< the first of the highest
  std::int64_t peak_bytes() const { return bytes[static_cast<std::size_t>(peak_time)]; }
  /// What is held at `time`, largest first.
  std::vector<HeldTensor> held_at(std::int32_t time) const;
};

/// What `plan`, complete but for its memory, holds.
HeldMemory held_memory(const Problem& problem, const Plan& plan);

/// What `tensor` is, as seen at time point `time`. A parameter stands for its optimizer state too.
MemoryKind memory_kind(const Problem& problem, const Timeline& timeline, const HeldTensor& tensor, std::int32_t time);

PlanMemory plan_memory(const Problem& problem, const Plan& plan, const HeldMemory& memory);

}  // namespace autopar::partition
