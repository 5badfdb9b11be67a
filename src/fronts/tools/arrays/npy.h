// NumPy's .npy files, versions 1 to 3, C order: how tensors enter and leave the tool.
#pragma once

#include "base/type/dtype.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tool {

struct Array {
  int32_t dtype = 0; // cugrt_dtype
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;
};

/// Throws std::runtime_error unless the file is a little-endian, C-ordered array of a dtype that
/// cugrt has, and its header agrees with its size.
Array read_npy(const std::string &path);

/// Writes a whole file or nothing (base/file.h). bf16 is two bytes without a meaning (V2), as NumPy
/// saves ml_dtypes' arrays; block formats are bytes with a last dimension that counts them.
void write_npy(const std::string &path, const Array &array);

// Names and sizes of data types, as the public header numbers them.

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
