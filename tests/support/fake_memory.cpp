// The fake driver's memory: host memory under device names.
#include "support/fake_state.h"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace cugrt::test {

namespace {

constexpr size_t kGranularity = size_t(2) << 20;

void *pointer(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

/// The entry of an address map that holds `address`; end() when none does.
template <class Map>
typename Map::const_iterator containing(const Map &map, typename Map::key_type address) {
  auto after = map.upper_bound(address);
  if (after == map.begin())
    return map.end();
  --after;
  return address < after->first + after->second ? after : map.end();
}

} // namespace

/// True unless the range starts in device memory and leaves it.
bool FakeState::device_range_ok(CUdeviceptr address, size_t bytes) const {
  for (const auto *map : {&allocations, &mappings})
    if (auto in = containing(*map, address); in != map->end())
      return bytes <= in->first + in->second - address;
  return true;
}

CUresult FakeState::MemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  *total_bytes = options.device_bytes;
  *free_bytes = options.device_bytes - used_bytes;
  return CUDA_SUCCESS;
}

CUresult FakeState::MemAlloc(CUdeviceptr *address, size_t bytes) {
  if (!has_current())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes > options.device_bytes - used_bytes)
    return CUDA_ERROR_OUT_OF_MEMORY;
  void *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!data)
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(data, 0xcd, bytes);
  *address = reinterpret_cast<CUdeviceptr>(data);
  allocations[*address] = bytes;
  used_bytes += bytes;
  return CUDA_SUCCESS;
}

CUresult FakeState::MemFree(CUdeviceptr address) {
  auto found = allocations.find(address);
  if (found == allocations.end())
    return CUDA_ERROR_INVALID_VALUE;
  used_bytes -= found->second;
  allocations.erase(found);
  std::free(pointer(address));
  return CUDA_SUCCESS;
}

CUresult FakeState::MemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
  return valid_stream(stream) ? MemAlloc(address, bytes) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult FakeState::MemFreeAsync(CUdeviceptr address, CUstream stream) {
  return valid_stream(stream) ? MemFree(address) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult FakeState::MemHostAlloc(void **data, size_t bytes, unsigned) {
  if (!has_current())
    return CUDA_ERROR_INVALID_CONTEXT;
  *data = std::malloc(bytes);
  if (!*data)
    return CUDA_ERROR_OUT_OF_MEMORY;
  host_allocations[reinterpret_cast<CUdeviceptr>(*data)] = bytes;
  return CUDA_SUCCESS;
}

CUresult FakeState::MemHostGetDevicePointer(CUdeviceptr *address, void *data, unsigned) {
  *address = reinterpret_cast<CUdeviceptr>(data);
  return host_allocations.count(*address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult FakeState::MemFreeHost(void *data) {
  if (!host_allocations.erase(reinterpret_cast<CUdeviceptr>(data)))
    return CUDA_ERROR_INVALID_VALUE;
  std::free(data);
  return CUDA_SUCCESS;
}

CUresult FakeState::PointerGetAttribute(void *value, CUpointer_attribute attribute,
                                        CUdeviceptr address) {
  bool device = containing(allocations, address) != allocations.end() ||
                containing(mappings, address) != mappings.end();
  bool host = containing(host_allocations, address) != host_allocations.end();
  if (!device && !host)
    return CUDA_ERROR_INVALID_VALUE;
  if (attribute != CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
    return CUDA_ERROR_NOT_SUPPORTED;
  CUmemorytype type = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  std::memcpy(value, &type, sizeof type);
  return CUDA_SUCCESS;
}

CUresult FakeState::MemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
  auto found = containing(allocations, address);
  if (found == allocations.end())
    return CUDA_ERROR_NOT_FOUND;
  if (base)
    *base = found->first;
  if (bytes)
    *bytes = found->second;
  return CUDA_SUCCESS;
}

CUresult FakeState::MemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (!has_current())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!valid_stream(stream))
    return CUDA_ERROR_INVALID_HANDLE;
  if (!device_range_ok(to, bytes) || !device_range_ok(from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (options.execute)
    std::memmove(pointer(to), pointer(from), bytes);
  return CUDA_SUCCESS;
}

CUresult FakeState::MemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  return MemcpyAsync(to, reinterpret_cast<CUdeviceptr>(from), bytes, nullptr);
}
CUresult FakeState::MemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  return MemcpyAsync(reinterpret_cast<CUdeviceptr>(to), from, bytes, nullptr);
}
CUresult FakeState::MemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return MemcpyAsync(to, from, bytes, nullptr);
}
CUresult FakeState::MemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream s) {
  return MemcpyAsync(to, reinterpret_cast<CUdeviceptr>(from), bytes, s);
}
CUresult FakeState::MemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream s) {
  return MemcpyAsync(reinterpret_cast<CUdeviceptr>(to), from, bytes, s);
}
CUresult FakeState::MemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  return MemcpyAsync(to, from, bytes, s);
}

CUresult FakeState::run_fill(CUdeviceptr at, uint32_t value, size_t element_bytes,
                             size_t count) const {
  if (!device_range_ok(at, count * element_bytes) || at % element_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (options.execute)
    for (size_t i = 0; i < count; ++i)
      std::memcpy(static_cast<char *>(pointer(at)) + i * element_bytes, &value, element_bytes);
  return CUDA_SUCCESS;
}

CUresult FakeState::MemsetD8(CUdeviceptr at, unsigned char value, size_t count) {
  return has_current() ? run_fill(at, value, 1, count) : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult FakeState::MemsetD8Async(CUdeviceptr at, unsigned char value, size_t count, CUstream s) {
  return valid_stream(s) ? MemsetD8(at, value, count) : CUDA_ERROR_INVALID_HANDLE;
}
CUresult FakeState::MemsetD16Async(CUdeviceptr at, unsigned short value, size_t count, CUstream s) {
  return valid_stream(s) ? run_fill(at, value, 2, count) : CUDA_ERROR_INVALID_HANDLE;
}
CUresult FakeState::MemsetD32Async(CUdeviceptr at, unsigned value, size_t count, CUstream s) {
  return valid_stream(s) ? run_fill(at, value, 4, count) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult FakeState::MemAddressReserve(CUdeviceptr *address, size_t bytes, size_t, CUdeviceptr,
                                      unsigned long long) {
  if (bytes == 0 || bytes % kGranularity)
    return CUDA_ERROR_INVALID_VALUE;
  void *data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(data);
  reservations[*address] = bytes;
  return CUDA_SUCCESS;
}

CUresult FakeState::MemAddressFree(CUdeviceptr address, size_t bytes) {
  auto found = reservations.find(address);
  if (found == reservations.end() || found->second != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  reservations.erase(found);
  munmap(pointer(address), bytes);
  return CUDA_SUCCESS;
}

CUresult FakeState::MemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                              const CUmemAllocationProp *, unsigned long long) {
  if (bytes == 0 || bytes % kGranularity)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes > options.device_bytes - used_bytes)
    return CUDA_ERROR_OUT_OF_MEMORY;
  used_bytes += bytes;
  *handle = next_handle++;
  physical[*handle] = bytes;
  return CUDA_SUCCESS;
}

CUresult FakeState::MemRelease(CUmemGenericAllocationHandle handle) {
  auto found = physical.find(handle);
  if (found == physical.end())
    return CUDA_ERROR_INVALID_VALUE;
  used_bytes -= found->second;
  physical.erase(found);
  return CUDA_SUCCESS;
}

CUresult FakeState::MemMap(CUdeviceptr address, size_t bytes, size_t,
                           CUmemGenericAllocationHandle handle, unsigned long long) {
  auto found = physical.find(handle);
  auto in = containing(reservations, address);
  if (found == physical.end() || found->second != bytes || in == reservations.end() ||
      bytes > in->first + in->second - address || containing(mappings, address) != mappings.end())
    return CUDA_ERROR_INVALID_VALUE;
  mappings[address] = bytes;
  return CUDA_SUCCESS;
}

CUresult FakeState::MemUnmap(CUdeviceptr address, size_t bytes) {
  auto found = mappings.find(address);
  if (found == mappings.end() || found->second != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  mappings.erase(found);
  mprotect(pointer(address), bytes, PROT_NONE);
  return CUDA_SUCCESS;
}

CUresult FakeState::MemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *,
                                 size_t) {
  if (!mappings.count(address))
    return CUDA_ERROR_INVALID_VALUE;
  mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}

CUresult FakeState::MemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *,
                                                CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}

} // namespace cugrt::test
