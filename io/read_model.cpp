#include "io/read_model.h"

#include "io/file.h"
#include "io/read_constraints.h"
#include "io/read_mesh.h"

namespace autopar::io {

ModelFile read_model(const std::string& path) { return read_model(path, read_file(path)); }

ModelFile read_model(const std::string& file, const std::string& text) {
  ModelFile model;
  auto document = std::make_shared<JsonDocument>(file, text);
  const JsonValue root = document->root();
  // Another file, or another version, should be told so and not that it has an unknown key.
  if (root.find("format")) expect_format(root, "autopar-model", 1);
  root.expect_keys({"format", "version", "name", "producer", "graph_hash", "mesh", "cluster", "inputs", "nodes",
                    "outputs", "constraints"});
  expect_format(root, "autopar-model", 1);
  if (const auto producer = root.find("producer")) producer->string();
  if (const auto mesh = root.find("mesh")) model.mesh = read_mesh(*mesh);
  if (const auto cluster = root.find("cluster")) {
    if (cluster->is_string()) {
      model.cluster_name = cluster->string();
    } else {
      model.inline_cluster = read_inline_cluster(*cluster);
    }
  }
  model.graph_file = read_graph(root);
  model.constraints = root.find("constraints");
  if (model.constraints) check_constraint_keys(*model.constraints);
  model.hash = content_hash(text);
  model.document = std::move(document);
  return model;
}

std::string cluster_name_of(const std::string& file, const std::string& text) {
  const JsonDocument document(file, text);
  if (!document.root().is_object()) return {};
  const auto cluster = document.root().find("cluster");
  return cluster && cluster->is_string() ? std::string(cluster->string()) : std::string();
}

}  // namespace autopar::io
