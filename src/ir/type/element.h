// Elements of constants: numbers to bytes of a dtype and back.
#pragma once

#include "ir/dtype.h"

#include <optional>
#include <string>
#include <string_view>

namespace cugrt::ir {

/// Whether elements can be written as numbers: not block formats.
bool has_number_elements(DType dtype);
/// Whether `value` is one of the dtype's integers (booleans: 0 and 1).
bool integer_fits(DType dtype, int64_t value, bool above_int64 = false);

/// Appends one element of at least 8 bits. The value must fit; u64 takes the same bits.
void append_integer(DType dtype, int64_t value, std::string &bytes);
/// Rounded to nearest, ties to even; false when a finite value becomes infinite.
bool append_float(DType dtype, double value, std::string &bytes);

int64_t integer_at(DType dtype, const char *bytes);
double float_at(DType dtype, const char *bytes);

} // namespace cugrt::ir
