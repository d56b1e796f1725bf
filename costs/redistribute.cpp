#include "costs/redistribute.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <queue>
#include <utility>

#include "costs/redistribute_hops.h"

namespace autopar::costs {
namespace {

/// What a path is chosen by: time, then collectives, then steps.
struct Length {
  std::int64_t time_ps = RedistributeTable::kUnreachable;
  std::int64_t ties = 0;  // collectives · kCollective + steps
  bool operator==(const Length&) const = default;
  bool operator<(const Length& other) const {
    return time_ps != other.time_ps ? time_ps < other.time_ps : ties < other.ties;
  }
};

constexpr std::int64_t kCollective = 1 << 16;

Length operator+(const Length& length, const RedistributeHop& hop) {
  return {length.time_ps + hop.time_ps, length.ties + 1 + (collective_of(hop.kind) ? kCollective : 0)};
}

std::size_t ix(int i) { return static_cast<std::size_t>(i); }

}  // namespace

std::optional<Collective> collective_of(RedistributeStep::Kind kind) {
  using Kind = RedistributeStep::Kind;
  switch (kind) {
    case Kind::kAllGather:
      return Collective::kAllGather;
    case Kind::kReduceScatter:
      return Collective::kReduceScatter;
    case Kind::kAllReduce:
      return Collective::kAllReduce;
    case Kind::kAllToAll:
      return Collective::kAllToAll;
    case Kind::kSlice:
    case Kind::kZero:
      break;
  }
  return std::nullopt;
}

std::string_view step_name(RedistributeStep::Kind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"all_gather", "reduce_scatter", "all_reduce",
                                                      "all_to_all", "slice",          "zero"};
  return kNames[static_cast<std::size_t>(kind)];
}

RedistributeTable::RedistributeTable(std::vector<Placements> states,
                                     const std::vector<std::vector<RedistributeHop>>& hops)
    : states_(std::move(states)), rows_(new std::atomic<const Row*>[states_.size()]) {
  for (const std::vector<RedistributeHop>& from_state : hops) {
    first_hop_.push_back(hops_.size());
    hops_.insert(hops_.end(), from_state.begin(), from_state.end());
  }
  first_hop_.push_back(hops_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) rows_[i].store(nullptr, std::memory_order_relaxed);
}

RedistributeTable::~RedistributeTable() {
  for (std::size_t i = 0; i < states_.size(); ++i) delete rows_[i].load(std::memory_order_relaxed);
}

int RedistributeTable::index_of(const Placements& placements) const {
  const auto found = std::lower_bound(states_.begin(), states_.end(), placements);
  return found != states_.end() && *found == placements ? static_cast<int>(found - states_.begin()) : -1;
}

// Dijkstra. Lengths grow strictly with every hop, so the order of settling, and with it the path, is a fixed one.
// Threads that ask for the same row at once each make it; the first to finish is kept.
const RedistributeTable::Row& RedistributeTable::make_row(int from) const {
  std::vector<Length> lengths(states_.size());
  std::vector<std::int32_t> last_hop(states_.size(), -1);
  using Entry = std::pair<Length, int>;
  const auto later = [](const Entry& a, const Entry& b) { return b < a; };
  std::priority_queue<Entry, std::vector<Entry>, decltype(later)> queue(later);
  lengths[ix(from)] = {0, 0};
  queue.push({lengths[ix(from)], from});
  while (!queue.empty()) {
    const auto [length, state] = queue.top();
    queue.pop();
    if (!(length == lengths[ix(state)])) continue;
    for (std::size_t h = first_hop_[ix(state)]; h < first_hop_[ix(state) + 1]; ++h) {
      const Length longer = length + hops_[h];
      if (!(longer < lengths[ix(hops_[h].to)])) continue;
      lengths[ix(hops_[h].to)] = longer;
      last_hop[ix(hops_[h].to)] = static_cast<std::int32_t>(h);
      queue.push({longer, hops_[h].to});
    }
  }
  auto made = std::make_unique<Row>();
  for (const Length& length : lengths) made->times_ps.push_back(length.time_ps);
  made->last_hop = std::move(last_hop);
  const Row* kept = nullptr;
  if (!rows_[ix(from)].compare_exchange_strong(kept, made.get(), std::memory_order_acq_rel)) return *kept;
  return *made.release();
}

std::vector<RedistributeStep> RedistributeTable::path(int from, int to) const {
  const std::vector<std::int32_t>& last_hop = row(from).last_hop;
  std::vector<RedistributeStep> steps;
  for (int state = to; last_hop[ix(state)] >= 0;) {
    const std::int32_t at = last_hop[ix(state)];
    const RedistributeHop& hop = hops_[ix(at)];
    const auto next = std::ranges::upper_bound(first_hop_, ix(at));  // of the state after the hop's own
    const auto before = static_cast<int>(next - first_hop_.begin()) - 1;
    steps.push_back(
        {hop.kind, hop.mesh_dims, states_[ix(before)], states_[ix(state)], hop.bytes, hop.time_ps, hop.startup_ps});
    state = before;
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

struct Redistributor::Impl {
  Device device;
  Mesh mesh;
  CollectiveModel collectives;
  std::mutex mutex;  // guards `tables`; a table never moves or goes
  std::map<std::pair<std::vector<std::int64_t>, DType>, std::unique_ptr<const RedistributeTable>> tables;
};

Redistributor::Redistributor(const Cluster& cluster, const Mesh& mesh)
    : impl_(new Impl{cluster.device, mesh, CollectiveModel(cluster, mesh), {}, {}}) {}

Redistributor::~Redistributor() = default;

const Mesh& Redistributor::mesh() const { return impl_->mesh; }

const CollectiveModel& Redistributor::collectives() const { return impl_->collectives; }

const RedistributeTable& Redistributor::table(const TensorMeta& tensor) const {
  const std::pair key(tensor.shape, tensor.dtype);
  {
    const std::lock_guard lock(impl_->mutex);
    const auto found = impl_->tables.find(key);
    if (found != impl_->tables.end()) return *found->second;
  }
  std::vector<Placements> states = redistribute_states(tensor, impl_->mesh);
  const auto hops = redistribute_hops(tensor, impl_->mesh, impl_->device, impl_->collectives, states);
  auto made = std::make_unique<const RedistributeTable>(std::move(states), hops);
  const std::lock_guard lock(impl_->mutex);
  return *impl_->tables.try_emplace(key, std::move(made)).first->second;
}

}  // namespace autopar::costs
