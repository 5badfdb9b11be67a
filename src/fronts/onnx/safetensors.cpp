// Weights of an imported model as a safetensors file.
#include "fronts/onnx/import.h"

#include "base/file.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

const char *format_name(ir::DType dtype) {
  switch (dtype) {
  case ir::DType::boolean:
    return "BOOL";
  case ir::DType::i8:
    return "I8";
  case ir::DType::i16:
    return "I16";
  case ir::DType::i32:
    return "I32";
  case ir::DType::i64:
    return "I64";
  case ir::DType::u8:
    return "U8";
  case ir::DType::u16:
    return "U16";
  case ir::DType::u32:
    return "U32";
  case ir::DType::u64:
    return "U64";
  case ir::DType::f16:
    return "F16";
  case ir::DType::bf16:
    return "BF16";
  case ir::DType::f64:
    return "F64";
  default:
    return "F32";
  }
}

// The format has no gaps. With large tensors of round sizes first, most begin at multiples of this,
// where a device can read them in the file's pages.
constexpr size_t kAlignment = 64;

size_t alignment_behind(const Imported::Weight &weight) {
  const size_t bytes = weight.tensor.bytes.size();
  return std::min(kAlignment, bytes & (~bytes + 1));
}

} // namespace

Status write_weights(const std::string &path, const Imported &imported) {
  // Names are those of the module's parameters: letters, digits, '_' and '.', nothing to escape.
  std::string header = "{", bytes;
  size_t at = 0;
  std::vector<const Imported::Weight *> order;
  for (const Imported::Weight &weight : imported.weights)
    order.push_back(&weight);
  std::stable_sort(order.begin(), order.end(), [](const auto *a, const auto *b) {
    return alignment_behind(*a) > alignment_behind(*b);
  });
  for (const Imported::Weight *one : order) {
    const Imported::Weight &weight = *one;
    header += (at || header.size() > 1 ? ",\"" : "\"") + weight.name + "\":{\"dtype\":\"" +
              format_name(weight.tensor.dtype) + "\",\"shape\":[";
    for (size_t i = 0; i < weight.tensor.dims.size(); ++i)
      header += (i ? "," : "") + std::to_string(weight.tensor.dims[i]);
    header += "],\"data_offsets\":[" + std::to_string(at) + "," +
              std::to_string(at + weight.tensor.bytes.size()) + "]}";
    at += weight.tensor.bytes.size();
  }
  header += "}";
  header.append((kAlignment - (8 + header.size()) % kAlignment) % kAlignment, ' ');
  bytes.reserve(8 + header.size() + at);
  for (unsigned i = 0; i < 8; ++i)
    bytes += static_cast<char>(header.size() >> (8 * i) & 255);
  bytes += header;
  for (const Imported::Weight *weight : order)
    bytes += weight->tensor.bytes;
  return write_file(path, bytes);
}

} // namespace cugrt::onnx
