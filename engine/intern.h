#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/cost_network.h"

namespace autopar::engine {

/// Mixes `value` into `hash` (the finaliser of SplitMix64, Steele, Lea, Flood 2014).
inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebULL;
  return hash ^ (hash >> 31);
}

template <typename Range>
std::uint64_t mix_all(std::uint64_t hash, const Range& values) {
  hash = mix(hash, values.size());
  for (const auto& value : values) hash = mix(hash, static_cast<std::uint64_t>(value));
  return hash;
}

/// Indices of items by their hashes. One open table: reading a large file looks for millions of lists, and nodes of
/// their own for each would be most of its time.
class HashIndex {
 public:
  /// The index, of those that were added with this hash, for which `is_same`. If there is none, adds `next`.
  template <class IsSame>
  std::int32_t find_or_add(std::uint64_t hash, std::int32_t next, const IsSame& is_same) {
    if (3 * slots_.size() <= 4 * size_) grow();
    const auto part = static_cast<std::uint32_t>(hash);
    std::size_t at = part & (slots_.size() - 1);
    for (; slots_[at].index >= 0; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].part == part && is_same(slots_[at].index)) return slots_[at].index;
    }
    slots_[at] = {part, next};
    ++size_;
    return next;
  }

 private:
  struct Slot {
    std::uint32_t part = 0;  // of the hash
    std::int32_t index = -1;
  };

  void grow() {
    const std::vector<Slot> before =
        std::exchange(slots_, std::vector<Slot>(std::max<std::size_t>(16, 2 * slots_.size())));
    for (const Slot& slot : before) {
      if (slot.index < 0) continue;
      std::size_t at = slot.part & (slots_.size() - 1);
      while (slots_[at].index >= 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of 2, at most three quarters full
  std::size_t size_ = 0;
};

/// Gives equal items equal indices, in the order of their first appearance.
template <typename T, typename Hash>
class Interner {
 public:
  std::int32_t add(const T& item) { return add_as(item, item); }
  std::int32_t add(T&& item) { return add_as(item, std::move(item)); }

  const T& operator[](std::int32_t index) const { return items_[static_cast<std::size_t>(index)]; }
  std::size_t size() const { return items_.size(); }
  std::vector<T> take() { return std::move(items_); }

 private:
  template <class Given>
  std::int32_t add_as(const T& item, Given&& given) {
    const auto next = static_cast<std::int32_t>(items_.size());
    const auto is_same = [&](std::int32_t index) { return items_[static_cast<std::size_t>(index)] == item; };
    const std::int32_t index = index_.find_or_add(Hash{}(item), next, is_same);
    if (index == next) items_.emplace_back(std::forward<Given>(given));
    return index;
  }

  std::vector<T> items_;
  HashIndex index_;
};

struct HashDomain {
  std::uint64_t operator()(const Domain& domain) const {
    std::uint64_t hash = mix_all(mix(domain.costs.size(), domain.usage.size()), domain.costs);
    for (const std::vector<std::int64_t>& row : domain.usage) hash = mix_all(hash, row);
    return hash;
  }
};

}  // namespace autopar::engine
