#include "io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "io/input_error.h"

namespace autopar::io {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

std::string_view type_name(element value) {
  switch (value.type()) {
    case element_type::ARRAY:
      return "a list";
    case element_type::OBJECT:
      return "an object";
    case element_type::INT64:
    case element_type::UINT64:
      return "an integer";
    case element_type::DOUBLE:
      return "a number with a fraction";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "true or false";
    case element_type::NULL_VALUE:
      return "null";
  }
  return "something else";
}

/// Listens to a parse only for its first error. simdjson reports errors without a place, so a text that it refused is
/// read again.
class ErrorListener : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::string message;
  std::size_t position = 0;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t num_read, const std::string&, const nlohmann::json::exception& error) override {
    message = error.what();
    position = num_read;
    return false;
  }
};

/// Line and column, from 1, of the last of the first `num_read` bytes.
std::string line_and_column(std::string_view text, std::size_t num_read) {
  const std::string_view before = text.substr(0, num_read == 0 ? 0 : num_read - 1);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("line {}, column {}", line, before.size() - line_start + 1);
}

/// What nlohmann says after "[json.exception.parse_error.101] parse error at line 1, column 2: ".
std::string bare_message(const std::string& what) {
  const std::size_t place = what.find("parse error at ");
  const std::size_t end = place == std::string::npos ? place : what.find(": ", place);
  return end == std::string::npos ? what : what.substr(end + 2);
}

[[noreturn]] void fail_syntax(const std::string& file, const std::string& text, simdjson::error_code error) {
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (error == simdjson::EMPTY || text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw InputError(file, "", "is empty");
  }
  if (error == simdjson::DEPTH_ERROR) {
    throw InputError(file, "", fmt::format("nested more than {} levels deep", JsonDocument::kMaxDepth));
  }
  ErrorListener listener;
  nlohmann::json::sax_parse(text, &listener);
  if (!listener.message.empty()) {
    throw InputError(file, line_and_column(text, listener.position), "not JSON: " + bare_message(listener.message));
  }
  if (error == simdjson::NUMBER_ERROR) throw InputError(file, "", "not JSON: a number that does not fit in 64 bits");
  throw InputError(file, "", fmt::format("not JSON: {}", simdjson::error_message(error)));
}

/// Keys can be long and hold anything; a message should still be a line.
std::string shortened(std::string_view text) {
  constexpr std::size_t kLongest = 96;
  std::string line = text.size() <= kLongest
                         ? std::string(text)
                         : fmt::format("{}…{}", text.substr(0, kLongest / 2), text.substr(text.size() - kLongest / 2));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 32; }, '?');
  return line;
}

bool is_plain(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

JsonDocument::JsonDocument(std::string file, const std::string& text) : file_(std::move(file)) {
  simdjson::error_code error = parser_.allocate(text.size(), kMaxDepth);
  const std::size_t begin = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  const bool is_padded = text.capacity() - text.size() >= simdjson::SIMDJSON_PADDING;
  if (!error) error = parser_.parse(text.data() + begin, text.size() - begin, !is_padded).get(root_);
  if (error) fail_syntax(file_, text, error);
  paths_.emplace_back();
}

void JsonValue::fail(std::string_view message) const { throw InputError(document_->file_, place(), message); }

void JsonValue::fail_type(std::string_view expected) const {
  fail(fmt::format("expected {}, found {}", expected, type_name(element_)));
}

const std::string& JsonValue::file() const { return document_->file_; }

std::string JsonValue::minified() const { return simdjson::minify(element_); }

std::string JsonValue::place() const {
  std::vector<std::int32_t> parts;
  for (std::int32_t i = path_; i > 0; i = document_->paths_[static_cast<std::size_t>(i)].parent) parts.push_back(i);
  std::string text;
  element value = document_->root_;
  for (auto it = parts.rbegin(); it != parts.rend(); ++it) {
    const JsonDocument::PathPart& part = document_->paths_[static_cast<std::size_t>(*it)];
    if (part.index < 0) {
      if (is_plain(part.key)) {
        text += (text.empty() ? "" : ".") + std::string(part.key);
      } else {
        text += fmt::format("[\"{}\"]", shortened(part.key));
      }
      value = value.get_object().at_key(part.key);
      continue;
    }
    text += fmt::format("[{}]", part.index);
    value = value.get_array().at(static_cast<std::size_t>(part.index));
    std::string_view name;
    if (value.is_object() && !value["key"].get(name)) text += fmt::format(" ({})", shortened(name));
  }
  return text;
}

JsonValue JsonValue::child(element value, std::string_view key, std::int64_t index) const {
  document_->paths_.push_back({path_, static_cast<std::int32_t>(index), key});
  return JsonValue(document_, value, static_cast<std::int32_t>(document_->paths_.size() - 1));
}

bool JsonValue::boolean() const {
  bool value = false;
  if (element_.get(value)) fail_type("true or false");
  return value;
}

std::int64_t JsonValue::int64() const {
  std::int64_t value = 0;
  const simdjson::error_code error = element_.get(value);
  if (error == simdjson::NUMBER_OUT_OF_RANGE) fail("does not fit in a signed 64-bit integer");
  if (error) fail_type("an integer");
  return value;
}

double JsonValue::number() const {
  double value = 0;
  if (element_.get(value)) fail_type("a number");
  return value;
}

std::string_view JsonValue::string() const {
  std::string_view value;
  if (element_.get(value)) fail_type("a string");
  return value;
}

std::vector<std::int64_t> JsonValue::int64_list() const {
  simdjson::dom::array array;
  if (element_.get(array)) fail_type("a list of integers");
  std::vector<std::int64_t> values;
  values.reserve(array.size());
  std::int64_t index = 0;
  for (const element item : array) {
    std::int64_t value = 0;
    if (item.get(value)) value = child(item, {}, index).int64();
    values.push_back(value);
    ++index;
  }
  return values;
}

std::vector<JsonValue> JsonValue::items() const {
  simdjson::dom::array array;
  if (element_.get(array)) fail_type("a list");
  std::vector<JsonValue> values;
  values.reserve(array.size());
  std::int64_t index = 0;
  for (const element item : array) values.push_back(child(item, {}, index++));
  return values;
}

simdjson::dom::object JsonValue::object() const {
  simdjson::dom::object object;
  if (element_.get(object)) fail_type("an object");
  return object;
}

std::vector<std::pair<std::string_view, JsonValue>> JsonValue::fields() const {
  std::vector<std::pair<std::string_view, JsonValue>> values;
  std::unordered_set<std::string_view> seen;
  for (const auto field : object()) {
    if (!seen.insert(field.key).second) fail(fmt::format("key \"{}\" is there twice", shortened(field.key)));
    values.emplace_back(field.key, child(field.value, field.key, -1));
  }
  return values;
}

void JsonValue::expect_keys(std::initializer_list<std::string_view> known) const {
  std::uint64_t seen = 0;
  for (const auto field : object()) {
    const auto it = std::find(known.begin(), known.end(), field.key);
    if (it == known.end()) {
      fail(fmt::format("unknown key \"{}\"; expected {}", shortened(field.key),
                       fmt::join(known.begin(), known.end(), ", ")));
    }
    const std::uint64_t bit = std::uint64_t{1} << (it - known.begin());
    if ((seen & bit) != 0) fail(fmt::format("key \"{}\" is there twice", field.key));
    seen |= bit;
  }
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  element value;
  if (object().at_key(key).get(value)) return std::nullopt;
  return child(value, key, -1);
}

JsonValue JsonValue::at(std::string_view key) const {
  const std::optional<JsonValue> value = find(key);
  if (!value) fail(fmt::format("key \"{}\" is missing", key));
  return *value;
}

void expect_format(const JsonValue& root, std::string_view format, std::int64_t version) {
  if (root.at("format").string() != format) {
    root.at("format").fail(fmt::format("expected \"{}\", found \"{}\"", format, root.at("format").string()));
  }
  if (root.at("version").int64() != version) {
    root.at("version").fail(
        fmt::format("this program reads version {}, found {}", version, root.at("version").int64()));
  }
}

}  // namespace autopar::io
