// Names and sizes of data types, as the public header numbers them.
#pragma once

#include "base/type/dtype.h"

#include <cstdint>
#include <vector>

namespace tool {

/// Throws std::runtime_error for a number that is not a cugrt_dtype, as those below do.
cugrt::ir::DType own_dtype(int32_t dtype);
/// "f32", "bool" and so on.
const char *dtype_name(int32_t dtype);

/// Elements of a row of `row_bytes` bytes in a block format; 0 for other dtypes, and where these
/// are no whole blocks.
int64_t block_elements(int32_t dtype, int64_t row_bytes);

/// Bytes of a contiguous tensor, blocks counted along the innermost dimension; throws on overflow.
uint64_t tensor_bytes(int32_t dtype, const std::vector<int64_t> &dims);

} // namespace tool
