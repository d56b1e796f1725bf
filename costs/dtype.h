#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace autopar::costs {

/// Element types of torch tensors, named as torch prints them (without "torch.").
enum class DType : std::uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat8E4M3,
  kFloat8E5M2,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
};

/// Size of one element in bytes.
std::int64_t dtype_bytes(DType dtype);

/// torch's name: "bfloat16", "float32", "int64", ...
std::string_view dtype_name(DType dtype);

/// The dtype with torch's name `name`; nothing if there is none.
std::optional<DType> parse_dtype(std::string_view name);

/// True for types that gradients and Partial sums can have.
bool is_floating_point(DType dtype);

bool is_complex(DType dtype);

}  // namespace autopar::costs
