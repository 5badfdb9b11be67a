// Names and sizes of data types, as the public header numbers them.
#include "npy.h"

#include "base/type/element.h"
#include "cugrt/cugrt.h"

#include <stdexcept>
#include <string>

namespace tool {

using cugrt::ir::DType;
static_assert(CUGRT_BOOL == int(DType::boolean) && CUGRT_F64 == int(DType::f64) &&
              CUGRT_IQ4_NL == int(DType::iq4_nl));

DType own_dtype(int32_t dtype) {
  if (dtype < 0 || dtype > CUGRT_IQ4_NL)
    throw std::runtime_error("dtype " + std::to_string(dtype) + " is newer than this tool");
  return static_cast<DType>(dtype);
}

const char *dtype_name(int32_t dtype) { return info(own_dtype(dtype)).name.data(); }

int64_t block_elements(int32_t dtype, int64_t row_bytes) {
  const cugrt::ir::DTypeInfo &type = info(own_dtype(dtype));
  if (type.kind != cugrt::ir::DTypeKind::block || row_bytes % type.bytes_per_block != 0)
    return 0;
  return row_bytes / type.bytes_per_block * type.elements_per_block;
}

uint64_t tensor_bytes(int32_t dtype, const std::vector<int64_t> &dims) {
  const auto bytes = cugrt::ir::tensor_bytes(own_dtype(dtype), dims);
  if (!bytes)
    throw std::runtime_error("a tensor's size overflows");
  return *bytes;
}

} // namespace tool
