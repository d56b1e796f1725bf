#include "launch/units.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace autopar::launch {
namespace {

/// `value` in the largest of `units`, each `factor` times the one before, in which it is at least 1.
template <std::size_t N>
std::string in_units(double value, double factor, const std::array<std::string_view, N>& units) {
  std::size_t unit = 0;
  while (value >= factor && unit + 1 < N) {
    value /= factor;
    ++unit;
  }
  const int digits = value == 0 || value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;
  return fmt::format("{:.{}f} {}", value, digits, units[unit]);
}

}  // namespace

std::string time_text(std::int64_t ps) {
  constexpr std::array<std::string_view, 5> kUnits = {"ps", "ns", "µs", "ms", "s"};
  return in_units(static_cast<double>(ps), 1000, kUnits);
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  return in_units(static_cast<double>(bytes), 1024, kUnits);
}

std::string mesh_text(const costs::Mesh& mesh) {
  std::string text;
  for (std::size_t i = 0; i < mesh.shape.size(); ++i) {
    text += fmt::format("{}{}={}", i > 0 ? ", " : "", mesh.dim_names[i], mesh.shape[i]);
  }
  return text;
}

}  // namespace autopar::launch
