#include "partition/edge_tables.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cstddef>

#include "engine/index.h"

namespace autopar::partition {
namespace {

using engine::ix;

}  // namespace

std::int32_t EdgeTables::ask(const costs::TensorMeta& tensor, std::int32_t from, std::int32_t to) {
  const auto next_tensor = static_cast<std::int32_t>(tensors_.size());
  const auto [known, is_new] = tensor_index_.try_emplace({tensor.shape, tensor.dtype}, next_tensor);
  if (is_new) tensors_.push_back(&tensor);
  const Key key{known->second, from, to};
  const auto [handle, is_new_key] = handles_.try_emplace(key, static_cast<std::int32_t>(keys_.size()));
  if (is_new_key) keys_.push_back(key);
  return handle->second;
}

// A placement that the redistributor does not know (a rare Partial) can only stay as it is. Nothing can be made of what
// is not there, but it costs nothing not to make something.
Way way(const costs::Placements& from, const costs::Placements& to, bool to_kept_or_given, bool reaches) {
  const bool is_same = unmarked(from) == unmarked(to);
  if (to_kept_or_given && is_same == is_kept(to)) return Way::kNone;
  if (is_same || to == not_there()) return Way::kAsItIs;
  return reaches ? Way::kMoved : Way::kNone;
}

bool has_kept(const PlacementList& list) { return std::any_of(list.begin(), list.end(), is_kept); }

engine::Table EdgeTables::make_table(const Key& key) const {
  const costs::RedistributeTable& times = redistributor_.table(*tensors_[ix(key.tensor)]);
  const PlacementList& from = lists_[key.from];
  const PlacementList& to = lists_[key.to];
  const bool to_kept_or_given = has_kept(to);
  std::vector<int> to_state;
  for (const costs::Placements& placements : to) to_state.push_back(times.index_of(unmarked(placements)));
  engine::Table table{static_cast<std::int32_t>(from.size()), static_cast<std::int32_t>(to.size()), {}};
  table.costs.reserve(from.size() * to.size());
  for (const costs::Placements& placements : from) {
    const int from_state = times.index_of(unmarked(placements));
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Way found = way(placements, to[i], to_kept_or_given, times.reaches(from_state, to_state[i]));
      engine::Cost cost = found == Way::kAsItIs ? 0 : engine::kForbidden;
      if (found == Way::kMoved) cost = times.time_ps(from_state, to_state[i]);
      table.costs.push_back(cost);
    }
  }
  return table;
}

engine::Table equality_table(std::int32_t num_states) {
  engine::Table table{num_states, num_states, {}};
  for (std::int32_t row = 0; row < num_states; ++row) {
    for (std::int32_t col = 0; col < num_states; ++col) table.costs.push_back(row == col ? 0 : engine::kForbidden);
  }
  return table;
}

void EdgeTables::price() {
  // One task per tensor first: tables of one tensor would wait for each other while its paths are computed.
  tbb::parallel_for(std::size_t{0}, tensors_.size(), [&](std::size_t i) { redistributor_.table(*tensors_[i]); });
  std::vector<engine::Table> made(keys_.size());
  tbb::parallel_for(std::size_t{0}, keys_.size(), [&](std::size_t i) { made[i] = make_table(keys_[i]); });
  for (engine::Table& table : made) table_of_.push_back(tables_.add(std::move(table)));
}

}  // namespace autopar::partition
