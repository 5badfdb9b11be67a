// Host scalars as the bytes that a kernel argument takes.
#pragma once

#include "ir/dtype.h"
#include "support/status.h"

#include <cstdint>

namespace cugrt::runtime {

/// Bytes of one by-value argument; 0 for dtypes that cannot be passed by value (4-bit, block
/// formats).
uint32_t scalar_bytes(ir::DType dtype);

/// `value` as `dtype`, in the low bytes of the result. out_of_range where the dtype cannot hold it.
Result<uint64_t> integer_bits(int64_t value, ir::DType dtype);
/// Rounds to nearest even. unsupported for integer dtypes: a float is never cut silently.
Result<uint64_t> float_bits(double value, ir::DType dtype);

/// IEEE binary16 and bfloat16 bits of `value`, rounded to nearest even; overflow gives infinity.
uint16_t half_bits(double value);
uint16_t bfloat16_bits(float value);

} // namespace cugrt::runtime
