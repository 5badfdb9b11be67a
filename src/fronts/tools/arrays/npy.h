// NumPy's .npy files, versions 1 to 3, C order: how tensors enter and leave the tool.
#pragma once

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

/// Throws std::runtime_error for what is not a little-endian, C-ordered array of a dtype that cugrt
/// has, or whose header disagrees with the file's size.
Array read_npy(const std::string &path);

/// Whole or not at all (base/file.h). bf16 is two bytes without a meaning (V2), as NumPy saves
/// ml_dtypes' arrays; block formats are bytes with a last dimension that counts them.
void write_npy(const std::string &path, const Array &array);

} // namespace tool
