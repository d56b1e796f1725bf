#include "io/read_mesh.h"

#include <fmt/format.h>

#include <algorithm>

namespace autopar::io {
namespace {

/// Names are used as keys and in lists separated by commas, and a number would look like a mesh dim's index.
bool is_good_name(const std::string& name) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && !(name.front() >= '0' && name.front() <= '9') &&
         std::all_of(name.begin(), name.end(), is_word);
}

}  // namespace

std::vector<std::string> default_dim_names(std::size_t num_dims) {
  if (num_dims == 1) return {"dp"};
  if (num_dims == 2) return {"dp", "tp"};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < num_dims; ++i) names.push_back(fmt::format("dim{}", i));
  return names;
}

std::optional<std::string> mesh_fault(const costs::Mesh& mesh) {
  if (mesh.shape.empty()) return "a mesh needs at least one dim";
  if (mesh.shape.size() > static_cast<std::size_t>(costs::kMaxMeshDims)) {
    return fmt::format("{} dims; at most {} are possible", mesh.shape.size(), costs::kMaxMeshDims);
  }
  std::int64_t devices = 1;
  for (const std::int64_t size : mesh.shape) {
    if (size < 1) return fmt::format("a mesh dim of {}; expected at least 1", size);
    if (devices > kMaxDevices / size) return fmt::format("more than {} devices", kMaxDevices);
    devices *= size;
  }
  if (mesh.dim_names.size() != mesh.shape.size()) {
    return fmt::format("{} dim names for {} dims", mesh.dim_names.size(), mesh.shape.size());
  }
  for (std::size_t i = 0; i < mesh.dim_names.size(); ++i) {
    const std::string& name = mesh.dim_names[i];
    if (!is_good_name(name)) {
      return fmt::format("dim name \"{}\"; expected letters, digits, _ and -, not beginning with a digit", name);
    }
    if (std::count(mesh.dim_names.begin(), mesh.dim_names.end(), name) > 1) {
      return fmt::format("two dims are named \"{}\"", name);
    }
  }
  return std::nullopt;
}

costs::Mesh read_mesh(const JsonValue& value) {
  value.expect_keys({"shape", "dim_names"});
  costs::Mesh mesh;
  mesh.shape = value.at("shape").int64_list();
  if (const auto names = value.find("dim_names")) {
    for (const JsonValue& name : names->items()) mesh.dim_names.emplace_back(name.string());
  } else {
    mesh.dim_names = default_dim_names(mesh.shape.size());
  }
  if (const auto fault = mesh_fault(mesh)) value.fail(*fault);
  return mesh;
}

}  // namespace autopar::io
