#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "engine/core.h"
#include "engine/dual.h"

namespace autopar::engine {

/// A part of a network's assignments, those of live values, with its bound. The dual reads the core.
struct Part {
  LiveValues live;
  std::unique_ptr<const Core> core;
  std::unique_ptr<Dual> dual;
};

/// The part that `live` is, with messages and prices of `whole`, if given. Values without a partner are left out.
/// Nothing if no assignment is left that can be allowed.
std::optional<Part> make_part(const CostNetwork& network, LiveValues live, const Part* whole);

/// `live`, which the dual's core was made of, less values that no solution of at most `target` has: by reduced cost, or
/// because one alone uses more than there is.
LiveValues fixed(const Dual& dual, const LiveValues& live, Cost target);

/// Values of variables that have more than one left.
std::size_t open_values(const LiveValues& live);

}  // namespace autopar::engine
