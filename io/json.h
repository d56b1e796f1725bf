#pragma once

#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Reading JSON files with errors that say where: simdjson's DOM behind a cursor that knows its path.
namespace autopar::io {

/// What some editors put before UTF-8 text. RFC 8259 lets readers ignore it.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

class JsonDocument;

/// A value of a document, valid as long as the document. All accessors throw InputError with the file and the path of
/// the value, such as `model.json: nodes[12] (layers.0.mlp/f/mm).args[0]: expected a string, found a number`.
class JsonValue {
 public:
  bool is_null() const { return element_.is_null(); }
  bool is_bool() const { return element_.is_bool(); }
  bool is_integer() const { return element_.is_int64() || element_.is_uint64(); }
  bool is_number() const { return element_.is_number(); }
  bool is_string() const { return element_.is_string(); }
  bool is_array() const { return element_.is_array(); }
  bool is_object() const { return element_.is_object(); }

  bool boolean() const;
  std::int64_t int64() const;
  double number() const;
  std::string_view string() const;
  std::vector<std::int64_t> int64_list() const;

  std::vector<JsonValue> items() const;
  /// All fields in the file's order; refuses a key that is there twice.
  std::vector<std::pair<std::string_view, JsonValue>> fields() const;

  /// Refuses a value that is not an object, keys other than `known` and keys that are there twice.
  void expect_keys(std::initializer_list<std::string_view> known) const;
  std::optional<JsonValue> find(std::string_view key) const;
  /// As find(), but the key has to be there.
  JsonValue at(std::string_view key) const;

  /// Throws InputError at this value.
  [[noreturn]] void fail(std::string_view message) const;
  /// Path of this value: `nodes[12] (layers.0.mlp/f/mm).args[0]`; empty for the document itself.
  std::string place() const;
  const std::string& file() const;
  /// The value's JSON text without spaces.
  std::string minified() const;

 private:
  friend class JsonDocument;
  JsonValue(const JsonDocument* document, simdjson::dom::element element, std::int32_t path)
      : document_(document), element_(element), path_(path) {}
  [[noreturn]] void fail_type(std::string_view expected) const;
  JsonValue child(simdjson::dom::element element, std::string_view key, std::int64_t index) const;
  simdjson::dom::object object() const;

  const JsonDocument* document_;
  simdjson::dom::element element_;
  std::int32_t path_;  // index into the document's path parts
};

/// A parsed file.
class JsonDocument {
 public:
  /// Deepest nesting of objects and lists that is read.
  static constexpr std::size_t kMaxDepth = 64;

  /// `file` is for messages. Throws InputError with line and column if `text` is not JSON or nested too deeply.
  JsonDocument(std::string file, const std::string& text);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonValue root() const { return JsonValue(this, root_, 0); }

 private:
  friend class JsonValue;
  /// One step from a value to one in it: by key, or by index where that is not negative.
  struct PathPart {
    std::int32_t parent = -1;
    std::int32_t index = -1;
    std::string_view key;
  };
  std::string file_;
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
  mutable std::vector<PathPart> paths_;  // grows as values are visited
};

/// Checks `format` and `version` of a file's top-level object.
void expect_format(const JsonValue& root, std::string_view format, std::int64_t version);

}  // namespace autopar::io
