// Numbers as a dtype holds them: elements of constants, and scalars passed to kernels by value.
#pragma once

#include "base/status.h"
#include "base/type/dtype.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace cugrt::ir {

/// Whether elements can be written as numbers: not block formats.
bool has_number_elements(DType dtype);
/// Whether `value` is one of the dtype's integers (booleans: 0 and 1).
bool integer_fits(DType dtype, int64_t value, bool above_int64 = false);

/// Bytes of a tensor in one piece: rows of whole blocks. None if a dimension is negative, or the
/// bytes do not fit into 64 bits.
std::optional<uint64_t> tensor_bytes(DType dtype, std::span<const int64_t> dims);

/// Bytes of a scalar passed by value; 0 for 4-bit dtypes and block formats, which cannot be.
uint32_t scalar_bytes(DType dtype);
/// `value` as a scalar, in the low bytes of the result. Floats are rounded once, to nearest, ties
/// to even; too large ones give infinity. An integer that the dtype cannot hold is out_of_range, a
/// float as an integer dtype is unsupported: nothing is cut silently.
Result<uint64_t> scalar_bits(DType dtype, int64_t value);
Result<uint64_t> scalar_bits(DType dtype, double value);

/// Appends one element of at least 8 bits. The value must fit; u64 takes the same bits.
void append_integer(DType dtype, int64_t value, std::string &bytes);
/// Rounded to nearest, ties to even; false when a finite value becomes infinite.
bool append_float(DType dtype, double value, std::string &bytes);

int64_t integer_at(DType dtype, const char *bytes);
double float_at(DType dtype, const char *bytes);

} // namespace cugrt::ir
