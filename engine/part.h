#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "engine/core.h"
#include "engine/dual.h"
#include "engine/repeats.h"

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

/// The same with the messages of `small`, a part of the network's short form.
std::optional<Part> make_part(const CostNetwork& network, LiveValues live, const Part& small,
                              const ShortNetwork& shortened);

/// A part of the network's short form, which stands for the whole's `live`.
Part make_short_part(const CostNetwork& network, const LiveValues& live, const ShortNetwork& shortened);

/// `live`, which the dual's core was made of, less values that no solution of at most `target` has: by reduced cost, or
/// because one alone uses more than there is.
LiveValues fixed(const Dual& dual, const LiveValues& live, Cost target);

/// Values of variables that have more than one left.
std::size_t open_values(const LiveValues& live);

}  // namespace autopar::engine
