#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costs/mesh.h"

namespace autopar::costs {

struct TensorMeta;

enum class ReduceOp : std::uint8_t { kSum, kAvg, kMax, kMin };

/// DTensor placement of a tensor on one mesh dim: Replicate, Shard(dim) or Partial(op).
class Placement {
 public:
  constexpr Placement() = default;  ///< Replicate
  static constexpr Placement replicate() { return Placement(0); }
  static constexpr Placement shard(std::int64_t dim) { return Placement(static_cast<std::uint8_t>(1 + dim)); }
  static constexpr Placement partial(ReduceOp op = ReduceOp::kSum) {
    return Placement(static_cast<std::uint8_t>(kPartialBase + static_cast<std::uint8_t>(op)));
  }

  constexpr bool is_replicate() const { return code_ == 0; }
  constexpr bool is_shard() const { return code_ > 0 && code_ < kPartialBase; }
  constexpr bool is_partial() const { return code_ >= kPartialBase; }
  /// Tensor dim that is cut. Requires: is_shard().
  constexpr int dim() const { return code_ - 1; }
  /// Requires: is_partial().
  constexpr ReduceOp reduce_op() const { return static_cast<ReduceOp>(code_ - kPartialBase); }

  constexpr std::uint8_t code() const { return code_; }
  /// Inverse of code().
  static constexpr Placement from_code(std::uint8_t code) { return Placement(code); }

  constexpr auto operator<=>(const Placement&) const = default;

 private:
  static constexpr std::uint8_t kPartialBase = 64;
  explicit constexpr Placement(std::uint8_t code) : code_(code) {}
  std::uint8_t code_ = 0;
};

/// One placement per mesh dim. Dims beyond the mesh's rank are Replicate, so that comparison needs no rank.
struct Placements {
  std::array<Placement, kMaxMeshDims> at{};

  Placement& operator[](int mesh_dim) { return at[static_cast<std::size_t>(mesh_dim)]; }
  Placement operator[](int mesh_dim) const { return at[static_cast<std::size_t>(mesh_dim)]; }
  auto operator<=>(const Placements&) const = default;
};

/// "R", "S(0)", "P(sum)": as torch prints them.
std::string to_string(Placement placement);
/// Comma-separated over the mesh's dims, without spaces: "S(0),R".
std::string to_string(const Placements& placements, int mesh_rank);
/// Inverse of to_string(Placement); also accepts torch's long forms "Replicate", "Replicate()", "Shard(0)",
/// "Partial(sum)", "P" and "Partial".
std::optional<Placement> parse_placement(std::string_view text);

/// Number of pieces that `placements` cuts tensor dim `dim` into.
std::int64_t num_shards(const Placements& placements, const Mesh& mesh, std::int64_t dim);

/// Shape of the largest local piece: each shard on a mesh dim of n divides the dim by n, rounded up, from mesh dim 0
/// on (DTensor's order; piece sizes are torch.chunk's).
std::vector<std::int64_t> local_shape(const TensorMeta& tensor, const Placements& placements, const Mesh& mesh);

/// Bytes of the largest local piece.
std::int64_t local_bytes(const TensorMeta& tensor, const Placements& placements, const Mesh& mesh);

/// True if every shard names an existing dim and no device gets an empty piece (uneven pieces are legal).
/// An already empty dim (size 0) may not be sharded.
bool is_legal(const TensorMeta& tensor, const Placements& placements, const Mesh& mesh);

}  // namespace autopar::costs
