#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace autopar::io {

/// Reads JSON of a known shape value by value, without an index or a tree beside the text: cost tables are lists of
/// millions of numbers, of which little is kept. Errors are InputErrors with the path of the value, as JsonValue's are,
/// and line and column too where the text is not JSON.
class JsonScanner {
 public:
  /// `file` is for messages. `text` has to outlive the scanner.
  JsonScanner(std::string file, std::string_view text)
      : file_(std::move(file)), text_(text), at_(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0) {}

  /// Reads an object. `read(key)` has to read the key's value. Refuses keys that are neither `needed` nor `optional`,
  /// or there twice, and an object without a needed key.
  template <typename Read>
  void object(std::initializer_list<std::string_view> needed, std::initializer_list<std::string_view> optional,
              const Read& read) {
    open('{', "an object");
    std::vector<std::string> seen;
    for (bool more = !closes('}'); more; more = goes_on('}')) {
      const std::string key = read_key(needed, optional, seen);
      path_.push_back({key, -1});
      read(key);
      path_.pop_back();
      seen.push_back(key);
    }
    for (const std::string_view key : needed) {
      if (std::find(seen.begin(), seen.end(), key) == seen.end()) fail_missing(key);
    }
    --depth_;
  }

  /// Reads a list. `read(index)` has to read the item.
  template <typename Read>
  void list(const Read& read) {
    open('[', "a list");
    std::int64_t index = 0;
    path_.push_back({});
    for (bool more = !closes(']'); more; more = goes_on(']')) {
      path_.back().index = index;
      read(index++);
    }
    path_.pop_back();
    --depth_;
  }

  /// Reads a list of integers into `values`, whose room is used again.
  void int64_list(std::vector<std::int64_t>& values);
  std::int64_t int64();
  std::string string();

  /// Refuses anything but space behind the last value.
  void end();

  /// Throws InputError at the value that is being read; `below`: at a place in it, such as "[3]".
  [[noreturn]] void fail(std::string_view message, std::string_view below = {}) const;

 private:
  struct PathPart {
    std::string key;
    std::int64_t index = -1;  ///< in a list; negative: it is the key
  };

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }
  /// The next character that is not space; 0 at the end.
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void open(char bracket, std::string_view what);
  /// Whether an object or list ends here, straight behind its opening bracket.
  bool closes(char bracket);
  /// Reads the comma before another item, or the closing bracket.
  bool goes_on(char bracket);
  std::string read_key(std::initializer_list<std::string_view> needed, std::initializer_list<std::string_view> optional,
                       const std::vector<std::string>& seen);
  std::string read_string();

  std::string place() const;
  [[noreturn]] void fail_missing(std::string_view key) const;
  /// Another value than `expected` stands here.
  [[noreturn]] void fail_type(std::string_view expected) const;
  [[noreturn]] void fail_syntax(std::string_view message) const;

  std::string file_;
  std::string_view text_;
  std::size_t at_;
  int depth_ = 0;
  std::vector<PathPart> path_;
};

/// Whether `text` is a JSON object in which `key` stands before `other`, or alone. Looks at nothing but its outermost
/// keys, as far as need be, so `text` may well be no JSON.
bool has_outermost_key(std::string_view text, std::string_view key, std::string_view other);

}  // namespace autopar::io
