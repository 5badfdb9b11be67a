// Pointer attributes, and the device's memory pool.
#include "emulator/driver/driver.h"

#include <cstring>

namespace cugrt::emulator::api {

template <class T> static CUresult put(void *out, T value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

static CUresult put_attribute(const MemoryRange &range, CUpointer_attribute attribute,
                              CUdeviceptr address, void *out) {
  bool host = range.kind == MemoryKind::pinned || range.kind == MemoryKind::registered;
  bool managed = range.kind == MemoryKind::managed;
  uint64_t begin = range.begin;
  // Registered pages have an address on the device beside the host's.
  uint64_t offset =
      address - begin < range.bytes ? address - begin : address - range.device_address;
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    return put(out, range.context ? range.context->handle : CUcontext(nullptr));
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    return put(out, unsigned(host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    if (!range.device_address)
      return CUDA_ERROR_INVALID_VALUE;
    return put(out, CUdeviceptr(range.device_address + offset));
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    if (!host && !managed)
      return CUDA_ERROR_INVALID_VALUE;
    return put(out, begin + offset);
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    return put(out, (unsigned long long)range.id);
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    return put(out, managed);
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    return put(out, 0);
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    return put(out, CUdeviceptr(begin));
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    return put(out, size_t(range.bytes));
  case CU_POINTER_ATTRIBUTE_MAPPED:
    return put(out, range.device_address != 0);
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    return put(out, 0);
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    return put(out, 0ull);
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    return put(out, int(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    return put(out, range.pool ? range.pool->handle : nullptr);
  case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    return put(out, size_t(range.bytes));
  case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    return put(out, CUdeviceptr(begin));
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

// The bytes of an attribute's value, for answers about pointers that CUDA does not know.
static size_t attribute_bytes(CUpointer_attribute attribute) {
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
  case CU_POINTER_ATTRIBUTE_MAPPED:
    return sizeof(bool);
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    return 4;
  case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
    return 16;
  default:
    return 8;
  }
}

LOCKED_CALL(cuPointerGetAttribute, out, attribute, address) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  std::optional<MemoryRange> range = driver.allocations->find(address);
  // "CUDA_ERROR_INVALID_VALUE will be returned" for pointers that CUDA neither allocated nor
  // registered.
  return range ? put_attribute(*range, attribute, address, out) : CUDA_ERROR_INVALID_VALUE;
}

LOCKED_CALL(cuPointerGetAttributes, count, attributes, out, address) {
  if (!count || !attributes || !out)
    return CUDA_ERROR_INVALID_VALUE;
  std::optional<MemoryRange> range = driver.allocations->find(address);
  for (unsigned i = 0; i < count; ++i) {
    if (!out[i])
      return CUDA_ERROR_INVALID_VALUE;
    // "cuPointerGetAttributes will not return an error when the attribute encountered is not
    // applicable to the pointer: it is set to NULL or zero."
    if (!range || put_attribute(*range, attributes[i], address, out[i]) != CUDA_SUCCESS)
      std::memset(out[i], 0, attribute_bytes(attributes[i]));
    if (!range && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
      put(out[i], int(CU_DEVICE_INVALID));
  }
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
