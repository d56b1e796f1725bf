#pragma once

#include <string>

#include "tests/io/scratch.h"

namespace autopar::testing {

inline std::string tiny_path() { return AUTOPAR_SOURCE_DIR "/examples/tiny/model.json"; }

/// The tiny example's text with `from` replaced by `to`, once. Fails the test if `from` is not there.
inline std::string tiny_with(const std::string& from, const std::string& to) {
  std::string text = slurp(tiny_path());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

}  // namespace autopar::testing
