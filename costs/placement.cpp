#include "costs/placement.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "costs/graph.h"

namespace autopar::costs {
namespace {

constexpr std::array<std::string_view, 4> kReduceNames = {"sum", "avg", "max", "min"};

/// The text between "prefix(" and ")"; nothing if `text` has another form.
std::optional<std::string_view> inside(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return std::nullopt;
  return text.substr(1, text.size() - 2);
}

std::optional<Placement> parse_shard(std::string_view digits) {
  int dim = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), dim);
  if (error != std::errc{} || end != digits.data() + digits.size() || dim < 0 || dim > 60) return std::nullopt;
  return Placement::shard(dim);
}

std::optional<Placement> parse_partial(std::string_view name) {
  for (std::size_t i = 0; i < kReduceNames.size(); ++i) {
    if (kReduceNames[i] == name) return Placement::partial(static_cast<ReduceOp>(i));
  }
  return std::nullopt;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Whether all nested cuts of one tensor dim, the first of them on mesh dim `first`, leave every device a piece. A cut
/// makes pieces of two sizes, and either can be the one that a later cut tears too small (7 in 2 is 4 and 3; 4 in 3 is
/// 2, 2 and nothing).
bool cuts_are_legal(const TensorMeta& tensor, const Placements& placements, const Mesh& mesh, int first) {
  std::vector<std::int64_t> sizes{tensor.shape[static_cast<std::size_t>(placements[first].dim())]};
  for (int i = first; i < mesh.rank(); ++i) {
    if (placements[i] != placements[first]) continue;
    const std::int64_t n = mesh.shape[static_cast<std::size_t>(i)];
    std::vector<std::int64_t> pieces;
    for (std::int64_t size : sizes) {
      const std::int64_t last = size - ceil_div(size, n) * (n - 1);
      if (last <= 0) return false;
      pieces.push_back(ceil_div(size, n));
      if (last != pieces.back()) pieces.push_back(last);
    }
    sizes = std::move(pieces);
  }
  return true;
}

}  // namespace

std::string to_string(Placement placement) {
  if (placement.is_replicate()) return "R";
  if (placement.is_shard()) return "S(" + std::to_string(placement.dim()) + ")";
  return "P(" + std::string(kReduceNames[static_cast<std::size_t>(placement.reduce_op())]) + ")";
}

std::string to_string(const Placements& placements, int mesh_rank) {
  std::string text;
  for (int i = 0; i < mesh_rank; ++i) {
    if (i > 0) text += ',';
    text += to_string(placements[i]);
  }
  return text;
}

std::optional<Placement> parse_placement(std::string_view text) {
  if (text == "R" || text == "Replicate" || text == "Replicate()") return Placement::replicate();
  if (text == "P" || text == "Partial" || text == "Partial()") return Placement::partial();
  for (std::string_view prefix : {"Shard", "S"}) {
    if (const auto digits = inside(text, prefix)) return parse_shard(*digits);
  }
  for (std::string_view prefix : {"Partial", "P"}) {
    if (const auto name = inside(text, prefix)) return parse_partial(*name);
  }
  return std::nullopt;
}

std::int64_t num_shards(const Placements& placements, const Mesh& mesh, std::int64_t dim) {
  std::int64_t n = 1;
  for (int i = 0; i < mesh.rank(); ++i) {
    if (placements[i].is_shard() && placements[i].dim() == dim) n *= mesh.shape[static_cast<std::size_t>(i)];
  }
  return n;
}

std::vector<std::int64_t> local_shape(const TensorMeta& tensor, const Placements& placements, const Mesh& mesh) {
  std::vector<std::int64_t> shape = tensor.shape;
  for (int i = 0; i < mesh.rank(); ++i) {
    if (!placements[i].is_shard()) continue;
    std::int64_t& size = shape[static_cast<std::size_t>(placements[i].dim())];
    size = ceil_div(size, mesh.shape[static_cast<std::size_t>(i)]);
  }
  return shape;
}

std::int64_t local_bytes(const TensorMeta& tensor, const Placements& placements, const Mesh& mesh) {
  std::int64_t bytes = dtype_bytes(tensor.dtype);
  for (std::int64_t size : local_shape(tensor, placements, mesh)) bytes *= size;
  return bytes;
}

bool is_legal(const TensorMeta& tensor, const Placements& placements, const Mesh& mesh) {
  for (int i = 0; i < mesh.rank(); ++i) {
    if (!placements[i].is_shard()) continue;
    if (placements[i].dim() >= tensor.rank()) return false;
    const bool first_cut = std::none_of(placements.at.begin(), placements.at.begin() + i,
                                        [&](Placement other) { return other == placements[i]; });
    if (first_cut && !cuts_are_legal(tensor, placements, mesh, i)) return false;
  }
  return true;
}

}  // namespace autopar::costs
