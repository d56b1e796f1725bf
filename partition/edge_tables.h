#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "costs/redistribute.h"
#include "engine/cost_network.h"
#include "engine/intern.h"
#include "partition/choices.h"

namespace autopar::partition {

struct HashPlacementList {
  std::uint64_t operator()(const PlacementList& list) const {
    std::uint64_t hash = list.size();
    for (const costs::Placements& placements : list) {
      std::uint64_t codes = 0;
      for (const costs::Placement placement : placements.at) codes = codes << 8 | placement.code();
      hash = engine::mix(hash, codes);
    }
    return hash;
  }
};

/// Placement lists by index, equal lists having equal indices.
using PlacementLists = engine::Interner<PlacementList, HashPlacementList>;

/// How a tensor gets from one state of a list to one of another.
enum class Way : std::uint8_t { kNone, kAsItIs, kMoved };
/// `to_kept_or_given`: the other list says whether the tensor is kept, so it has it moved and marked, or as it is.
/// `reaches`: there is a redistribution between the placements.
Way way(const costs::Placements& from, const costs::Placements& to, bool to_kept_or_given, bool reaches);
/// Whether a list has states that are kept.
bool has_kept(const PlacementList& list);

/// Cost 0 for equal states, forbidden else.
engine::Table equality_table(std::int32_t num_states);

/// The redistribution tables that edges ask for. First all are asked for, then priced at once, in parallel.
class EdgeTables {
 public:
  EdgeTables(const costs::Redistributor& redistributor, const PlacementLists& lists)
      : redistributor_(redistributor), lists_(lists) {}

  /// A handle for the table of `tensor` (which must outlive this) from the placements of list `from` to those of `to`.
  std::int32_t ask(const costs::TensorMeta& tensor, std::int32_t from, std::int32_t to);

  /// Prices everything. Then table_of(handle) is the index in take_tables(); equal tables have equal indices.
  void price();
  std::int32_t table_of(std::int32_t handle) const { return table_of_[static_cast<std::size_t>(handle)]; }
  engine::Tables take_tables() { return engine::Tables(tables_.take()); }

 private:
  struct Key {
    std::int32_t tensor = -1;
    std::int32_t from = -1;
    std::int32_t to = -1;
    auto operator<=>(const Key&) const = default;
  };
  struct HashTable {
    std::uint64_t operator()(const engine::Table& table) const {
      return engine::mix_all(static_cast<std::uint64_t>(table.rows), table.costs);
    }
  };
  struct ShapeAndType {
    std::vector<std::int64_t> shape;
    costs::DType dtype = costs::DType::kFloat32;
    auto operator<=>(const ShapeAndType&) const = default;
  };

  engine::Table make_table(const Key& key) const;

  const costs::Redistributor& redistributor_;
  const PlacementLists& lists_;
  std::map<ShapeAndType, std::int32_t> tensor_index_;
  std::vector<const costs::TensorMeta*> tensors_;
  std::map<Key, std::int32_t> handles_;
  std::vector<Key> keys_;  // by handle
  std::vector<std::int32_t> table_of_;
  engine::Interner<engine::Table, HashTable> tables_;
};

}  // namespace autopar::partition
