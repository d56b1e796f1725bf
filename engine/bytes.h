#pragma once

#include <sstream>
#include <string>
#include <utility>

/// To and from byte strings by an archive of cereal, which only the .cpp files that call this include.
namespace autopar::engine {

template <class OutputArchive, class... Fields>
std::string to_bytes(const Fields&... fields) {
  std::ostringstream stream;
  OutputArchive archive(stream);
  archive(fields...);
  return std::move(stream).str();
}

template <class InputArchive, class... Fields>
void from_bytes(const std::string& bytes, Fields&... fields) {
  std::istringstream stream(bytes);
  InputArchive archive(stream);
  archive(fields...);
}

}  // namespace autopar::engine
