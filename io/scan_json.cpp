#include "io/scan_json.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>

#include "io/input_error.h"
#include "io/json.h"

namespace autopar::io {
namespace {

constexpr int kMaxDepth = static_cast<int>(JsonDocument::kMaxDepth);

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
}

/// The number or word that starts at `at`, cut to what fits in a message.
std::string_view word_at(std::string_view text, std::size_t at) {
  constexpr std::size_t kLongest = 40;
  std::size_t end = at;
  while (end < text.size() && end - at < kLongest && is_word(text[end])) ++end;
  return text.substr(at, end - at);
}

/// The place behind the string that starts at `at`.
std::size_t behind_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

}  // namespace

std::int64_t JsonScanner::int64() {
  skip_space();
  const char* begin = text_.data() + at_;
  const char* end = text_.data() + text_.size();
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error == std::errc::invalid_argument) fail_type("an integer");
  const char* digits = begin + (*begin == '-' ? 1 : 0);
  const bool has_leading_zero = *digits == '0' && stop - digits > 1;
  if ((stop != end && is_word(*stop)) || has_leading_zero) fail_type("an integer");
  if (error == std::errc::result_out_of_range) {
    fail(fmt::format("{} does not fit in a signed 64-bit integer", word_at(text_, at_)));
  }
  at_ += static_cast<std::size_t>(stop - begin);
  return value;
}

void JsonScanner::int64_list(std::vector<std::int64_t>& values) {
  values.clear();
  list([&](std::int64_t) { values.push_back(int64()); });
}

std::string JsonScanner::string() {
  if (peek() != '"') fail_type("a string");
  return read_string();
}

void JsonScanner::end() {
  if (peek() != '\0' || at_ < text_.size()) fail_syntax("something follows behind the outermost object");
}

void JsonScanner::open(char bracket, std::string_view what) {
  if (peek() != bracket) fail_type(what);
  if (++depth_ > kMaxDepth) throw InputError(file_, "", fmt::format("nested more than {} levels deep", kMaxDepth));
  ++at_;
}

bool JsonScanner::closes(char bracket) {
  if (peek() != bracket) return false;
  ++at_;
  return true;
}

bool JsonScanner::goes_on(char bracket) {
  const char next = peek();
  if (next != ',' && next != bracket) fail_syntax(fmt::format("expected ',' or '{}'", bracket));
  ++at_;
  return next == ',';
}

std::string JsonScanner::read_key(std::initializer_list<std::string_view> needed,
                                  std::initializer_list<std::string_view> optional,
                                  const std::vector<std::string>& seen) {
  if (peek() != '"') fail_syntax("expected a key");
  std::string key = read_string();
  std::vector<std::string_view> known(needed);
  known.insert(known.end(), optional.begin(), optional.end());
  if (std::find(known.begin(), known.end(), key) == known.end()) {
    constexpr std::size_t kLongest = 96;
    fail(fmt::format("unknown key \"{}\"; expected {}", key.substr(0, kLongest), fmt::join(known, ", ")));
  }
  if (std::find(seen.begin(), seen.end(), key) != seen.end()) fail(fmt::format("key \"{}\" is there twice", key));
  if (peek() != ':') fail_syntax("expected ':'");
  ++at_;
  return key;
}

/// Strings are rare: names and keys. The parser of other files reads them, with all their escapes.
std::string JsonScanner::read_string() {
  const std::size_t end = behind_string(text_, at_);
  const std::size_t begin = at_;
  const std::string quoted(text_.substr(at_, end - at_));
  try {
    const JsonDocument document(file_, quoted);
    at_ = end;
    return std::string(document.root().string());
  } catch (const InputError&) {
    at_ = begin;
    fail_syntax("a string that does not end, or with a wrong escape or byte");
  }
}

std::string JsonScanner::place() const {
  std::string text;
  for (const PathPart& part : path_) {
    if (part.index >= 0) {
      text += fmt::format("[{}]", part.index);
    } else if (!part.key.empty()) {
      text += (text.empty() ? "" : ".") + part.key;
    }
  }
  return text;
}

void JsonScanner::fail(std::string_view message, std::string_view below) const {
  throw InputError(file_, place().append(below), message);
}

void JsonScanner::fail_missing(std::string_view key) const { fail(fmt::format("key \"{}\" is missing", key)); }

void JsonScanner::fail_type(std::string_view expected) const {
  if (at_ >= text_.size()) fail_syntax(fmt::format("expected {}", expected));
  const std::string_view word = word_at(text_, at_);
  std::string found;
  if (text_[at_] == '"') {
    found = "a string";
  } else if (text_[at_] == '[') {
    found = "a list";
  } else if (text_[at_] == '{') {
    found = "an object";
  } else if (!word.empty()) {
    found = word;
  } else {
    fail_syntax(fmt::format("expected {}", expected));
  }
  fail(fmt::format("expected {}, found {}", expected, found));
}

void JsonScanner::fail_syntax(std::string_view message) const {
  if (text_.find_first_not_of(" \t\r\n") == std::string_view::npos) throw InputError(file_, "", "is empty");
  const std::string_view before = text_.substr(0, at_);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::string path = place();
  std::string found = "the file ends here";
  if (at_ < text_.size()) {
    const auto byte = static_cast<unsigned char>(text_[at_]);
    found = byte > ' ' && byte < 127 ? fmt::format("found '{}'", text_[at_]) : fmt::format("found byte 0x{:02x}", byte);
  }
  throw InputError(file_,
                   fmt::format("line {}, column {}{}{}", line, at_ - line_start + 1, path.empty() ? "" : " in ", path),
                   fmt::format("not JSON: {}; {}", message, found));
}

bool has_outermost_key(std::string_view text, std::string_view key, std::string_view other) {
  int depth = 0;
  bool expects_key = false;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::size_t at = text.find_first_not_of(" \t\r\n");
  if (at == std::string_view::npos || text[at] != '{') return false;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      const std::size_t end = behind_string(text, at);
      const std::string_view name = text.substr(at + 1, end - at - 2);
      if (depth == 1 && expects_key && (name == key || name == other)) return name == key;
      expects_key = false;
      at = end;
      continue;
    }
    if (c == '{' || c == '[') expects_key = ++depth == 1;
    if (c == '}' || c == ']') --depth;
    if (c == ',') expects_key = true;
    ++at;
  }
  return false;
}

}  // namespace autopar::io
