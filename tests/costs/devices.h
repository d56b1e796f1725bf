#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "costs/graph.h"
#include "costs/mesh.h"
#include "costs/placement.h"
#include "costs/redistribute.h"

/// Simulated devices that hold pieces of one tensor: what a placement means, written without the code under test.
namespace autopar::costs::testing {

using Coordinates = std::vector<std::int64_t>;  // of a device on the mesh, or of an element of the tensor

/// All coordinates of a grid, row-major.
inline std::vector<Coordinates> grid(const std::vector<std::int64_t>& shape) {
  std::vector<Coordinates> all = {{}};
  for (std::int64_t size : shape) {
    std::vector<Coordinates> longer;
    for (const Coordinates& c : all) {
      for (std::int64_t i = 0; i < size; ++i) {
        longer.push_back(c);
        longer.back().push_back(i);
      }
    }
    all = std::move(longer);
  }
  return all;
}

/// The elements (numbered row-major) of the piece that `device` has: nested torch.chunk, mesh dim 0 first.
inline std::set<std::size_t> piece(const TensorMeta& tensor, const Placements& placements, const Mesh& mesh,
                                   const Coordinates& device) {
  Coordinates low(tensor.shape.size(), 0);
  Coordinates high = tensor.shape;
  for (std::size_t i = 0; i < device.size(); ++i) {
    const Placement placement = placements.at[i];
    if (!placement.is_shard()) continue;
    const auto d = static_cast<std::size_t>(placement.dim());
    const std::int64_t size = high[d] - low[d];
    const std::int64_t chunk = (size + mesh.shape[i] - 1) / mesh.shape[i];
    high[d] = low[d] + std::min(size, chunk * (device[i] + 1));
    low[d] = low[d] + std::min(size, chunk * device[i]);
  }
  std::set<std::size_t> elements;
  std::size_t number = 0;
  for (const Coordinates& element : grid(tensor.shape)) {
    bool inside = true;
    for (std::size_t d = 0; d < element.size(); ++d) inside = inside && low[d] <= element[d] && element[d] < high[d];
    if (inside) elements.insert(number);
    ++number;
  }
  return elements;
}

/// The devices of each group along `mesh_dims`.
inline std::vector<std::vector<std::size_t>> groups_of(const Mesh& mesh, std::uint32_t mesh_dims) {
  std::map<Coordinates, std::vector<std::size_t>> groups;
  const std::vector<Coordinates> devices = grid(mesh.shape);
  for (std::size_t r = 0; r < devices.size(); ++r) {
    Coordinates key = devices[r];
    for (std::size_t i = 0; i < key.size(); ++i) {
      if ((mesh_dims >> i & 1U) != 0) key[i] = 0;
    }
    groups[key].push_back(r);
  }
  std::vector<std::vector<std::size_t>> all;
  for (const auto& [key, members] : groups) all.push_back(members);
  return all;
}

inline double reduce(ReduceOp op, const std::vector<double>& values) {
  if (op == ReduceOp::kMax) return *std::max_element(values.begin(), values.end());
  if (op == ReduceOp::kMin) return *std::min_element(values.begin(), values.end());
  double sum = 0;
  for (double value : values) sum += value;
  return op == ReduceOp::kAvg ? sum / static_cast<double>(values.size()) : sum;
}

class Devices {
 public:
  Devices(const TensorMeta& tensor, const Mesh& mesh, const Placements& placements) : tensor_(tensor), mesh_(mesh) {
    for (const Coordinates& device : grid(mesh.shape)) {
      std::map<std::size_t, double>& held = held_.emplace_back();
      for (std::size_t element : piece(tensor, placements, mesh, device)) {
        held[element] = share(placements, device, element);
      }
    }
  }

  void run(const RedistributeStep& step) {
    using Kind = RedistributeStep::Kind;
    const std::vector<std::map<std::size_t, double>> before = held_;
    const std::vector<Coordinates> devices = grid(mesh_.shape);
    for (const std::vector<std::size_t>& group : groups_of(mesh_, step.mesh_dims)) {
      const std::map<std::size_t, double> together = gather(before, group, step);
      for (std::size_t r : group) {
        if (step.kind == Kind::kAllGather || step.kind == Kind::kAllReduce) {
          held_[r] = together;
        } else if (step.kind == Kind::kZero) {
          for (auto& [element, value] : held_[r]) value = r == group.front() ? value : 0;
        } else {
          const std::map<std::size_t, double>& from = step.kind == Kind::kSlice ? before[r] : together;
          held_[r].clear();
          for (std::size_t element : piece(tensor_, step.to, mesh_, devices[r])) {
            if (from.count(element) != 0) held_[r][element] = from.at(element);
          }
        }
      }
    }
  }

  /// What is wrong if the devices should hold the tensor as `placements`; "" if nothing is.
  std::string fault(const Placements& placements) const {
    const std::vector<Coordinates> devices = grid(mesh_.shape);
    std::uint32_t sums = 0;
    ReduceOp op = ReduceOp::kSum;
    for (int i = 0; i < mesh_.rank(); ++i) {
      if (!placements[i].is_partial()) continue;
      sums |= 1U << i;
      op = placements[i].reduce_op();
    }
    for (const std::vector<std::size_t>& group : groups_of(mesh_, sums)) {
      for (std::size_t r : group) {
        std::set<std::size_t> elements;
        for (const auto& [element, value] : held_[r]) elements.insert(element);
        if (elements != piece(tensor_, placements, mesh_, devices[r])) return "wrong piece on " + std::to_string(r);
      }
      for (const auto& [element, first] : held_[group.front()]) {
        std::vector<double> values;
        for (std::size_t r : group) values.push_back(held_[r].at(element));
        if (std::abs(reduce(op, values) - value_of(element)) > 1e-9)
          return "wrong value on " + std::to_string(group[0]);
      }
    }
    return "";
  }

 private:
  static double value_of(std::size_t element) { return static_cast<double>(element + 1); }

  // The first device of those that share a sum has what the others leave of it.
  double share(const Placements& placements, const Coordinates& device, std::size_t element) const {
    std::size_t position = 0;
    std::size_t count = 1;
    ReduceOp op = ReduceOp::kSum;
    for (std::size_t i = 0; i < device.size(); ++i) {
      if (!placements.at[i].is_partial()) continue;
      op = placements.at[i].reduce_op();
      position = position * static_cast<std::size_t>(mesh_.shape[i]) + static_cast<std::size_t>(device[i]);
      count *= static_cast<std::size_t>(mesh_.shape[i]);
    }
    const double value = value_of(element);
    const auto other = [&](std::size_t p) { return 0.25 * static_cast<double>(p * (element + 3)); };
    if (op == ReduceOp::kMax) return value - other(position);
    if (op == ReduceOp::kMin) return value + other(position);
    if (position > 0) return other(position);
    double rest = op == ReduceOp::kAvg ? value * static_cast<double>(count) : value;
    for (std::size_t p = 1; p < count; ++p) rest -= other(p);
    return rest;
  }

  std::map<std::size_t, double> gather(const std::vector<std::map<std::size_t, double>>& before,
                                       const std::vector<std::size_t>& group, const RedistributeStep& step) const {
    std::map<std::size_t, std::vector<double>> values;
    for (std::size_t r : group) {
      for (const auto& [element, value] : before[r]) values[element].push_back(value);
    }
    Placement first;
    for (int i = mesh_.rank() - 1; i >= 0; --i) {
      if ((step.mesh_dims >> i & 1U) != 0) first = step.from[i];
    }
    std::map<std::size_t, double> together;
    for (const auto& [element, all] : values) {
      together[element] = first.is_partial() ? reduce(first.reduce_op(), all) : all.front();
    }
    return together;
  }

  TensorMeta tensor_;
  Mesh mesh_;
  std::vector<std::map<std::size_t, double>> held_;  // per device: element -> value
};

/// Whether the groups along `mesh_dim`, the only mesh dim on which the placements differ, can make the change by one
/// collective or local step, judged by who has which elements.
inline bool can_exchange(const TensorMeta& tensor, const Mesh& mesh, const Placements& from, const Placements& to,
                         int mesh_dim) {
  const Placement before = from[mesh_dim];
  const Placement after = to[mesh_dim];
  if (after.is_partial()) return before.is_replicate() && after.reduce_op() == ReduceOp::kSum;
  const std::vector<Coordinates> devices = grid(mesh.shape);
  for (const std::vector<std::size_t>& group : groups_of(mesh, 1U << mesh_dim)) {
    std::set<std::size_t> together;
    for (std::size_t r : group) together.merge(piece(tensor, from, mesh, devices[r]));
    for (std::size_t r : group) {
      const std::set<std::size_t> target = piece(tensor, to, mesh, devices[r]);
      const std::set<std::size_t> own = piece(tensor, from, mesh, devices[r]);
      const std::set<std::size_t>& source = before.is_shard() ? together : own;
      if (!std::includes(source.begin(), source.end(), target.begin(), target.end())) return false;
      if (after.is_replicate() && source != target) return false;
    }
  }
  return true;
}

}  // namespace autopar::costs::testing
