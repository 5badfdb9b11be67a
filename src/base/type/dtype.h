// Data types of tensors and of device scalars; the table is dtypes.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cugrt::ir {

enum class DType : uint8_t {
#define CUGRT_DTYPE(name, kind, elements, bytes) name,
#include "base/type/dtypes.def"
#undef CUGRT_DTYPE
};

enum class DTypeKind : uint8_t { boolean, signed_integer, unsigned_integer, floating, block };

struct DTypeInfo {
  std::string_view name; // "f32"; boolean is written "bool"
  DTypeKind kind;
  uint32_t elements_per_block, bytes_per_block;
};

const DTypeInfo &info(DType dtype);
/// Floats of 16 bits.
inline bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
std::optional<DType> dtype_from_name(std::string_view name);

} // namespace cugrt::ir
