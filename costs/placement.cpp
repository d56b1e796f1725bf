#include "costs/placement.h"

#include <charconv>

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
  // The last device along every mesh dim has the smallest piece: follow its size through the nested cuts.
  std::vector<std::int64_t> smallest = tensor.shape;
  for (int i = 0; i < mesh.rank(); ++i) {
    if (!placements[i].is_shard()) continue;
    if (placements[i].dim() >= tensor.rank()) return false;
    std::int64_t& size = smallest[static_cast<std::size_t>(placements[i].dim())];
    const std::int64_t n = mesh.shape[static_cast<std::size_t>(i)];
    size -= ceil_div(size, n) * (n - 1);
    if (size <= 0) return false;
  }
  return true;
}

}  // namespace autopar::costs
