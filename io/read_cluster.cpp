#include "io/read_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "io/file.h"
#include "io/input_error.h"

namespace autopar::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "autopar-cluster";
constexpr std::int64_t kVersion = 1;

/// The number inside {"value", "unit", "source"}. The bounds keep what is computed from it finite.
JsonValue read_constant(const JsonValue& owner, std::string_view key, std::string_view unit, double smallest,
                        double largest) {
  const JsonValue constant = owner.at(key);
  constant.expect_keys({"value", "unit", "source"});
  if (constant.at("unit").string() != unit) {
    constant.at("unit").fail(fmt::format("expected \"{}\", found \"{}\"", unit, constant.at("unit").string()));
  }
  if (constant.at("source").string().empty()) constant.at("source").fail("is empty");
  const JsonValue value = constant.at("value");
  const double number = value.number();
  if (number < smallest || number > largest) {
    value.fail(fmt::format("expected {} to {}, found {}", smallest, largest, number));
  }
  return value;
}

/// Sizes and rates; real ones are far above 1.
JsonValue read_positive(const JsonValue& owner, std::string_view key, std::string_view unit) {
  return read_constant(owner, key, unit, 1, 1e18);
}

double read_seconds(const JsonValue& owner, std::string_view key) {
  return read_constant(owner, key, "s", 0, 1000).number();
}

std::string read_text(const JsonValue& value) {
  if (value.string().empty()) value.fail("is empty");
  return std::string(value.string());
}

costs::Device read_device(const JsonValue& value) {
  value.expect_keys({"name", "memory", "multiprocessors", "accumulators", "matmul_flops", "matmul_clock",
                     "attention_share", "vector_flops", "memory_bandwidth", "launch", "matmul_overlap"});
  costs::Device device;
  device.name = read_text(value.at("name"));
  device.memory_bytes = read_positive(value, "memory", "B").int64();
  device.multiprocessors = read_positive(value, "multiprocessors", "1").int64();
  device.accumulators = read_positive(value, "accumulators", "1").int64();
  const JsonValue flops = value.at("matmul_flops");
  for (const auto& [name, rate] : flops.fields()) {
    const auto dtype = costs::parse_dtype(name);
    if (!dtype) rate.fail(fmt::format("unknown dtype \"{}\"", name));
    device.matmul_flops[*dtype] = read_positive(flops, name, "flop/s").number();
  }
  if (device.matmul_flops.empty()) flops.fail("expected at least one dtype");
  device.matmul_clock = read_constant(value, "matmul_clock", "1", 0.01, 1).number();
  if (value.find("attention_share")) {
    device.attention_share = read_constant(value, "attention_share", "1", 0.01, 1).number();
  }
  device.vector_flops = read_positive(value, "vector_flops", "flop/s").number();
  device.memory_bandwidth = read_positive(value, "memory_bandwidth", "B/s").number();
  device.launch_s = read_seconds(value, "launch");
  if (value.find("matmul_overlap")) device.matmul_overlap = read_constant(value, "matmul_overlap", "1", 0, 1).number();
  return device;
}

costs::Protocol read_protocol(const JsonValue& value) {
  return {read_positive(value, "bandwidth", "B/s").number(), read_seconds(value, "base_latency"),
          read_seconds(value, "hop_latency")};
}

costs::Link read_link(const JsonValue& value) {
  value.expect_keys({"name", "group", "bandwidth", "base_latency", "hop_latency", "low_latency", "multicast_bandwidth",
                     "multicast_latency"});
  costs::Link link;
  link.name = read_text(value.at("name"));
  link.group = value.at("group").int64();
  link.bulk = read_protocol(value);
  if (const auto low_latency = value.find("low_latency")) {
    low_latency->expect_keys({"bandwidth", "base_latency", "hop_latency"});
    link.low_latency = read_protocol(*low_latency);
  }
  if (value.find("multicast_bandwidth") || value.find("multicast_latency")) {
    link.multicast_bandwidth = read_positive(value, "multicast_bandwidth", "B/s").number();
    link.multicast_latency_s = read_seconds(value, "multicast_latency");
  }
  return link;
}

std::vector<costs::Link> read_links(const JsonValue& value) {
  std::vector<costs::Link> links;
  std::int64_t inner = 1;
  const std::vector<JsonValue> items = value.items();
  if (items.empty()) value.fail("expected at least one link");
  for (const JsonValue& item : items) {
    const bool last = links.size() + 1 == items.size();
    links.push_back(read_link(item));
    const std::int64_t group = links.back().group;
    if (last != (group == 0)) item.at("group").fail("the last link, and only it, has group 0: all devices");
    if (!last && (group <= inner || group % inner != 0)) {
      item.at("group").fail(fmt::format("expected a larger multiple of {}, found {}", inner, group));
    }
    inner = group;
  }
  return links;
}

/// Folders that hold the descriptions that come with the program: where it is installed, then where it was built.
std::vector<fs::path> cluster_folders() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  std::vector<fs::path> folders;
  if (!error) folders.push_back(program.parent_path().parent_path() / "share" / "autopar" / "clusters");
  folders.emplace_back(AUTOPAR_CLUSTER_DIR);
  std::erase_if(folders, [&](const fs::path& folder) { return !fs::is_directory(folder, error); });
  return folders;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const fs::path& folder : cluster_folders()) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

std::string cluster_path(const std::string& name_or_path, const std::string& source) {
  if (name_or_path.ends_with(".json")) return name_or_path;
  const std::vector<std::string> names = known_names();
  if (std::find(names.begin(), names.end(), name_or_path) == names.end()) {
    throw InputError(source, "",
                     fmt::format("unknown cluster \"{}\"; known are {}, or give a .json file", name_or_path,
                                 fmt::join(names, ", ")));
  }
  for (const fs::path& folder : cluster_folders()) {
    fs::path path = folder / (name_or_path + ".json");
    if (fs::exists(path)) return path.string();
  }
  throw InputError(source, "", fmt::format("cluster \"{}\" has disappeared", name_or_path));
}

ClusterFile read_cluster(const std::string& name_or_path, const std::string& source) {
  const std::string path = cluster_path(name_or_path, source);
  return parse_cluster(path, read_file(path));
}

ClusterFile parse_cluster(const std::string& file, const std::string& text) {
  const JsonDocument document(file, text);
  expect_format(document.root(), kFormat, kVersion);
  return {read_inline_cluster(document.root()).cluster, content_hash(text)};
}

ClusterFile read_inline_cluster(const JsonValue& value) {
  if (value.find("format")) expect_format(value, kFormat, kVersion);
  value.expect_keys({"format", "version", "name", "device", "links"});
  costs::Cluster cluster;
  cluster.name = read_text(value.at("name"));
  cluster.device = read_device(value.at("device"));
  cluster.links = read_links(value.at("links"));
  return {std::move(cluster), content_hash(value.minified())};
}

}  // namespace autopar::io
