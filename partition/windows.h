#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "costs/graph.h"
#include "partition/plan.h"
#include "partition/problem.h"
#include "partition/uses.h"

namespace autopar::partition {

/// Which redistributions can hide behind ops, and where.
///
/// A *window* is one segment's forward or backward. What is gathered of parameters needs nothing but these, so it is
/// prefetched: it starts with the window before the one that reads it. What gradients are reduced to is read by nobody
/// but the optimizer, so they are deferred: they start with the window behind the one that makes them, and are waited
/// for behind that. (FSDP: Zhao et al. 2023.) Nothing is under way from the forward to the backward.
///
/// Casts and views between a parameter and its readers run when they are needed, those between a gradient and the
/// optimizer when the gradient is there. Of such a chain of values one is moved while others run: the first of the
/// narrowest dtype, or the last that a pin wants as a pending sum.
class Windows {
 public:
  /// `uses` is collect_uses() of the problem's graph.
  Windows(const Problem& problem, const std::vector<PhaseUses>& uses);

  std::int32_t count() const { return count_; }
  /// In which a node runs; -1 for graph inputs.
  std::int32_t of_node(std::int32_t node) const { return of_node_[static_cast<std::size_t>(node)]; }
  /// Of the first redistribution of an entry of `uses`: that for its only reader, or of the copy for all.
  const Flight& flight(std::int32_t uses) const { return flights_[static_cast<std::size_t>(uses)]; }
  /// The window that a flight hides in; -1: there is none.
  std::int32_t hides_in(const Flight& flight) const { return flight.exists() ? of_node(flight.start) : -1; }
  /// Whether it is one of parameters; else it is one of gradients.
  bool is_prefetch(std::int32_t uses) const { return is_prefetch_[static_cast<std::size_t>(uses)] != 0; }
  /// How many entries have flights of this kind in the same window.
  std::int64_t num_beside(std::int32_t uses) const { return num_beside_[static_cast<std::size_t>(uses)]; }
  /// The first node, if any, at whose turn a node runs that is made of parameters alone; -1: at its own.
  std::int32_t needed_at(std::int32_t node) const { return needed_at_[static_cast<std::size_t>(node)]; }

 private:
  Flight find_flight(const costs::Graph& graph, const PhaseUses& uses, bool is_given, bool is_for_gradients) const;

  std::int32_t count_ = 0;
  std::vector<std::int32_t> of_node_;
  std::vector<std::int32_t> first_node_;  // per window; -1: it has none
  std::vector<Flight> flights_;
  std::vector<char> is_prefetch_;
  std::vector<std::int64_t> num_beside_;
  std::vector<std::int32_t> needed_at_;
};

/// Nothing where a problem is without overlap.
std::optional<Windows> find_windows(const Problem& problem, const std::vector<PhaseUses>& uses);

}  // namespace autopar::partition
