#include "partition/edge_tables.h"

#include <tbb/parallel_for.h>

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

// A placement that the redistributor does not know (a rare Partial) can only stay as it is.
engine::Table EdgeTables::make_table(const Key& key) const {
  const costs::RedistributeTable& times = redistributor_.table(*tensors_[ix(key.tensor)]);
  const PlacementList& from = lists_[key.from];
  const PlacementList& to = lists_[key.to];
  std::vector<int> to_state;
  for (const costs::Placements& placements : to) to_state.push_back(times.index_of(placements));
  engine::Table table{static_cast<std::int32_t>(from.size()), static_cast<std::int32_t>(to.size()), {}};
  table.costs.reserve(from.size() * to.size());
  for (const costs::Placements& placements : from) {
    const int from_state = times.index_of(placements);
    for (std::size_t i = 0; i < to.size(); ++i) {
      engine::Cost cost = engine::kForbidden;
      // Nothing can be made of what is not there, but it costs nothing not to make something.
      if (placements == to[i] || to[i] == not_there()) {
        cost = 0;
      } else if (times.reaches(from_state, to_state[i])) {
        cost = times.time_ps(from_state, to_state[i]);
      }
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
