#include "costs/dtype.h"

#include <array>

namespace autopar::costs {
namespace {

struct DTypeFacts {
  DType dtype;
  std::string_view name;
  std::int64_t bytes;
  bool floating_point;
};

// In the order of the enumeration, so that the value is the index.
constexpr std::array kDTypes = {
    DTypeFacts{DType::kBool, "bool", 1, false},
    DTypeFacts{DType::kUInt8, "uint8", 1, false},
    DTypeFacts{DType::kInt8, "int8", 1, false},
    DTypeFacts{DType::kInt16, "int16", 2, false},
    DTypeFacts{DType::kInt32, "int32", 4, false},
    DTypeFacts{DType::kInt64, "int64", 8, false},
    DTypeFacts{DType::kFloat8E4M3, "float8_e4m3fn", 1, true},
    DTypeFacts{DType::kFloat8E5M2, "float8_e5m2", 1, true},
    DTypeFacts{DType::kFloat16, "float16", 2, true},
    DTypeFacts{DType::kBFloat16, "bfloat16", 2, true},
    DTypeFacts{DType::kFloat32, "float32", 4, true},
    DTypeFacts{DType::kFloat64, "float64", 8, true},
    DTypeFacts{DType::kComplex64, "complex64", 8, true},
    DTypeFacts{DType::kComplex128, "complex128", 16, true},
};

const DTypeFacts& facts(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::int64_t dtype_bytes(DType dtype) { return facts(dtype).bytes; }

std::string_view dtype_name(DType dtype) { return facts(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeFacts& entry : kDTypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

bool is_floating_point(DType dtype) { return facts(dtype).floating_point; }

bool is_complex(DType dtype) { return dtype == DType::kComplex64 || dtype == DType::kComplex128; }

}  // namespace autopar::costs
