#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "costs/redistribute.h"
#include "costs/strategy.h"
#include "partition/plan.h"
#include "partition/problem.h"
#include "partition/uses.h"

/// Collectives that run in pieces beside matmuls (async tensor parallelism: Wang et al. 2023).
///
/// Each of n devices multiplies its own piece of what is gathered while the next arrives, or multiplies for one piece
/// of what is reduced and scattered while the one before travels. So n - 1 transfers run beside n matmuls on an n-th of
/// the rows each: all takes max(transfers + one matmul, n matmuls), where one after the other takes the transfers and
/// the whole matmul. Small matmuls are slower, and what is scattered is added up in a pass of its own, so this may gain
/// nothing. Device::matmul_overlap is the share of the gain that is reached.
///
/// torch does so (torch/_inductor/fx_passes/micro_pipeline_tp.py) where the left matrix of matmuls is gathered, or the
/// output of one scattered, along other dims than the last; views between do not count. So it is where the matmul takes
/// what is gathered as it is, beside a right matrix that is cut, or gives the sum that is scattered as it is. One
/// matmul runs beside one collective.
namespace autopar::partition {

/// The one step of a redistribution that can be pipelined; nothing: it has other steps.
const costs::RedistributeStep* step_in_pieces(const std::vector<costs::RedistributeStep>& steps);

class Pipelines {
 public:
  /// `uses` is collect_uses() of the problem's graph; both stay alive.
  Pipelines(const Problem& problem, const std::vector<PhaseUses>& uses);

  /// The matmuls that anything done with an entry's value can run beside: what gives it (-1: none does), then readers.
  std::vector<std::int32_t> around(std::int32_t entry) const;

  /// The matmuls that a step without a flight can run beside; none: it is waited for. `readers` are those of the
  /// entry's uses that get what the step makes.
  std::vector<std::int32_t> matmuls(std::int32_t entry, const std::vector<Redistribution::Use>& readers,
                                    const costs::RedistributeStep& step) const;
  /// What hides in these matmuls, and no more than which hides where strategies are open. Nothing for a strategy: the
  /// matmul does not run.
  using StrategyOf = std::function<const costs::Strategy*(std::int32_t node)>;
  std::int64_t hidden_ps(const costs::RedistributeStep& step, const std::vector<std::int32_t>& matmuls,
                         const StrategyOf& strategy_of) const;
  using StrategiesOf = std::function<const std::vector<costs::Strategy>&(std::int32_t node)>;
  std::int64_t most_hidden_ps(const costs::RedistributeStep& step, const std::vector<std::int32_t>& matmuls,
                              const StrategiesOf& strategies_of) const;

 private:
  /// Times of a matmul: the whole, and of one piece.
  struct Times {
    std::int64_t whole_ps = 0;
    std::int64_t piece_ps = 0;
  };
  Times times(std::int32_t matmul, const costs::Strategy& strategy, std::int64_t num_pieces) const;
  bool fits(std::int32_t matmul, const costs::Strategy& strategy, const costs::RedistributeStep& step) const;
  std::int64_t reached(std::int64_t gained_ps) const;
  /// Of adding up what is scattered.
  std::int64_t sum_ps(const costs::RedistributeStep& step) const;
  bool is_left_of(std::int32_t node, std::int32_t input) const;
  std::vector<std::int32_t> readers(const std::vector<Redistribution::Use>& uses) const;
  std::int32_t producer(std::int32_t entry) const {
    return gives_[static_cast<std::size_t>(uses_[static_cast<std::size_t>(entry)].value.node)];
  }

  const Problem& problem_;
  const std::vector<PhaseUses>& uses_;
  std::vector<std::int32_t> gives_;               ///< per node: the matmul whose output it is; -1: none
  std::vector<std::vector<std::int32_t>> reads_;  ///< per node: the matmuls whose left matrix its first input is
};

/// Goes through the redistributions of one plan, in its order, so that no matmul runs beside two.
class PipelineTimer {
 public:
  PipelineTimer(const Pipelines& pipelines, Pipelines::StrategyOf strategy_of)
      : pipelines_(pipelines), strategy_of_(std::move(strategy_of)) {}

  /// What hides of a redistribution without a flight.
  std::int64_t hidden_ps(std::int32_t entry, const std::vector<Redistribution::Use>& readers,
                         const costs::RedistributeStep& step);

 private:
  const Pipelines& pipelines_;
  Pipelines::StrategyOf strategy_of_;
  std::set<std::int32_t> taken_;  // matmuls
};

}  // namespace autopar::partition
