// Kinds of kernels, parameters and tables that modules and plans share.
#pragma once

#include <cstdint>

namespace cugrt::ir {

/// Half-open range [begin, begin + count) into an array of the same owner.
struct Range {
  uint32_t begin = 0, count = 0;
  uint32_t end() const { return begin + count; }
  friend bool operator==(const Range &, const Range &) = default;
};

enum class Access : uint8_t { in, out, inout };
inline bool reads(Access access) { return access != Access::out; }
inline bool writes(Access access) { return access != Access::in; }

enum class KernelParamKind : uint8_t {
  tensor, // a device pointer to the first element; access and dtype declared
  scalar, // a host value, passed by value as `dtype`
  symbol, // an integer, passed by value as `dtype` (i32 or i64); launch rules may use its name
  device_symbol, // a device pointer to the i32 or i64 that a `read` binding names
  /// A symbol with its bounds and the word that reports a value outside of them, passed by value:
  /// cugrt_symbol of kernels/shared/device_symbol.cuh.
  checked_symbol,
};

/// A result whose size the device decides. Dimension `dim` of tensor `result` is an upper bound;
/// when a run has ended, the one element of result `count`, an i64, says how large it is, and the
/// elements of the tensor of that size follow each other from its address on.
struct CountedDim {
  uint32_t result = 0, dim = 0, count = 0;
  friend bool operator==(const CountedDim &, const CountedDim &) = default;
};

enum class CodeKind : uint8_t { source_file, source_text, ptx_file, cubin_file };

} // namespace cugrt::ir
