#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "costs/dtype.h"
#include "costs/graph.h"
#include "io/json.h"

/// Words that stand for one of a few values.
namespace autopar::io {

template <typename Enum, std::size_t N>
using Choices = std::array<std::pair<std::string_view, Enum>, N>;

/// The one that `value` names. Throws InputError with all names.
template <typename Enum, std::size_t N>
Enum choose(const JsonValue& value, const Choices<Enum, N>& choices) {
  const std::string_view text = value.string();
  std::string names;
  for (const auto& [name, choice] : choices) {
    if (text == name) return choice;
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", name);
  }
  value.fail(fmt::format("expected one of {}; found \"{}\"", names, text));
}

/// The name of a value that has one.
template <typename Enum, std::size_t N>
constexpr std::string_view name_of(Enum value, const Choices<Enum, N>& choices) {
  for (const auto& [name, choice] : choices) {
    if (choice == value) return name;
  }
  return {};
}

inline constexpr Choices<costs::Phase, 2> kPhases = {{
    {"forward", costs::Phase::kForward},
    {"backward", costs::Phase::kBackward},
}};

inline constexpr Choices<costs::OutputRole, 4> kOutputRoles = {{
    {"loss", costs::OutputRole::kLoss},
    {"output", costs::OutputRole::kOutput},
    {"gradient", costs::OutputRole::kGradient},
    {"mutation", costs::OutputRole::kMutation},
}};

inline costs::DType read_dtype(const JsonValue& value) {
  const auto dtype = costs::parse_dtype(value.string());
  if (!dtype) value.fail(fmt::format("unknown dtype \"{}\"", value.string()));
  return *dtype;
}

}  // namespace autopar::io
