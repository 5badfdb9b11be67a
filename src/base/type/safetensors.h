// Tensors written as a safetensors file: https://github.com/huggingface/safetensors, README,
// "Format".
#pragma once

#include "base/status.h"
#include "base/type/dtype.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt {

/// "BF16": the format's name of a dtype; empty of packed 4-bit integers, which have none.
std::string safetensors_name(ir::DType dtype);
std::optional<ir::DType> safetensors_dtype(std::string_view name);

/// A view of a tensor on the host.
struct StoredTensor {
  std::string_view name;
  ir::DType dtype = ir::DType::f32;
  std::span<const int64_t> dims;
  std::string_view bytes;
};

/// A file of the format in parts, which follow each other closely.
struct SafetensorsFile {
  std::string head;
  std::vector<std::string_view> bodies; // the tensors' bytes, in the order of the head

  std::vector<std::string_view> parts() const;
};
/// Views of the tensors' bytes. unsupported: a dtype that the format has no name for (packed 4-bit
/// integers); invalid_argument: a name that is not of letters, digits, '_' and '.'.
Result<SafetensorsFile> make_safetensors(std::span<const StoredTensor> tensors);

/// The file is written whole, or what was there stays.
Status write_safetensors(const std::string &path, std::span<const StoredTensor> tensors);

} // namespace cugrt
