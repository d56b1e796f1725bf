#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace autopar::io {

/// Input that cannot be used, or output that cannot be written: the user's to repair. what() is one line,
/// "file: place: message", where the place is a path in the file (or a line and column) and may be empty.
class InputError : public std::runtime_error {
 public:
  InputError(std::string_view file, std::string_view place, std::string_view message)
      : std::runtime_error(join(file, place, message)) {}

 private:
  static std::string join(std::string_view file, std::string_view place, std::string_view message) {
    std::string text(file);
    if (!place.empty()) text.append(": ").append(place);
    return text.append(": ").append(message);
  }
};

}  // namespace autopar::io
