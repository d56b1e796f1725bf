#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
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

/// Gives equal items equal indices, in the order of their first appearance.
template <typename T, typename Hash>
class Interner {
 public:
  std::int32_t add(T item) {
    const std::uint64_t hash = Hash{}(item);
    for (auto [it, end] = by_hash_.equal_range(hash); it != end; ++it) {
      if (items_[static_cast<std::size_t>(it->second)] == item) return it->second;
    }
    const auto index = static_cast<std::int32_t>(items_.size());
    by_hash_.emplace(hash, index);
    items_.push_back(std::move(item));
    return index;
  }

  const T& operator[](std::int32_t index) const { return items_[static_cast<std::size_t>(index)]; }
  std::size_t size() const { return items_.size(); }
  std::vector<T> take() { return std::move(items_); }

 private:
  std::vector<T> items_;
  std::unordered_multimap<std::uint64_t, std::int32_t> by_hash_;
};

struct HashDomain {
  std::uint64_t operator()(const Domain& domain) const {
    std::uint64_t hash = mix_all(mix(domain.costs.size(), domain.usage.size()), domain.costs);
    for (const std::vector<std::int64_t>& row : domain.usage) hash = mix_all(hash, row);
    return hash;
  }
};

}  // namespace autopar::engine
