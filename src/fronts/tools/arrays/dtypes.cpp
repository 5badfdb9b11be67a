// Names and sizes of data types, as the public header numbers them.
#include "dtypes.h"

#include <array>
#include <stdexcept>
#include <string>

namespace tool {

namespace {

struct DTypeRow {
  const char *name;
  uint32_t elements_per_block, bytes_per_block;
};

// In the order of cugrt_dtype.
constexpr std::array<DTypeRow, 26> kDTypes = {{
    {"bool", 1, 1},     {"i4", 2, 1},       {"i8", 1, 1},       {"i16", 1, 2},
    {"i32", 1, 4},      {"i64", 1, 8},      {"u4", 2, 1},       {"u8", 1, 1},
    {"u16", 1, 2},      {"u32", 1, 4},      {"u64", 1, 8},      {"f16", 1, 2},
    {"bf16", 1, 2},     {"f32", 1, 4},      {"f64", 1, 8},      {"q4_0", 32, 18},
    {"q4_1", 32, 20},   {"q8_0", 32, 34},   {"q5_0", 32, 22},   {"q5_1", 32, 24},
    {"q2_k", 256, 84},  {"q3_k", 256, 110}, {"q4_k", 256, 144}, {"q5_k", 256, 176},
    {"q6_k", 256, 210}, {"iq4_nl", 32, 18},
}};

const DTypeRow &row(int32_t dtype) {
  if (dtype < 0 || static_cast<size_t>(dtype) >= kDTypes.size())
    throw std::runtime_error("dtype " + std::to_string(dtype) + " is newer than this tool");
  return kDTypes[static_cast<size_t>(dtype)];
}

} // namespace

const char *dtype_name(int32_t dtype) { return row(dtype).name; }

int64_t block_elements(int32_t dtype, int64_t row_bytes) {
  const DTypeRow &type = row(dtype);
  if (type.elements_per_block <= 2 || row_bytes % type.bytes_per_block != 0)
    return 0;
  return row_bytes / type.bytes_per_block * type.elements_per_block;
}

uint64_t tensor_bytes(int32_t dtype, const std::vector<int64_t> &dims) {
  const DTypeRow &type = row(dtype);
  uint64_t blocks = dims.empty()
                        ? 1
                        : (static_cast<uint64_t>(dims.back()) + type.elements_per_block - 1) /
                              type.elements_per_block;
  uint64_t bytes = blocks * type.bytes_per_block;
  for (size_t i = 0; i + 1 < dims.size(); ++i)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dims[i]), &bytes))
      throw std::runtime_error("a tensor's size overflows");
  return bytes;
}

} // namespace tool
