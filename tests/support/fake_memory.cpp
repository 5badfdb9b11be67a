// The fake driver's memory: host memory under device names.
#include "support/fake_state.h"

#include <algorithm>
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
  pooled.erase(address);
  std::free(pointer(address));
  return CUDA_SUCCESS;
}

CUresult FakeState::MemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
  if (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<FakePool>();
  *pool = reinterpret_cast<CUmemoryPool>(made.get());
  pools[*pool] = std::move(made);
  return CUDA_SUCCESS;
}

CUresult FakeState::MemPoolDestroy(CUmemoryPool pool) {
  CUresult result = MemPoolTrimTo(pool, 0);
  pools.erase(pool);
  return result;
}

CUresult FakeState::MemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                        void *value) {
  auto found = pools.find(pool);
  if (found == pools.end() || attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(&found->second->threshold, value, sizeof(uint64_t));
  return CUDA_SUCCESS;
}

CUresult FakeState::MemPoolTrimTo(CUmemoryPool pool, size_t bytes) {
  auto found = pools.find(pool);
  if (found == pools.end())
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t &kept = found->second->kept;
  if (kept > bytes)
    used_bytes -= kept - bytes, kept = bytes;
  return CUDA_SUCCESS;
}

CUresult FakeState::MemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
                                          CUstream stream) {
  auto found = pools.find(pool);
  if (!valid_stream(stream) || found == pools.end())
    return CUDA_ERROR_INVALID_HANDLE;
  const uint64_t again = std::min<uint64_t>(found->second->kept, bytes);
  used_bytes -= again;
  CUresult result = MemAlloc(address, bytes);
  if (result != CUDA_SUCCESS) {
    used_bytes += again;
    return result;
  }
  found->second->kept -= again;
  pooled[*address] = pool;
  return CUDA_SUCCESS;
}

/// Into its pool, which keeps up to its threshold.
CUresult FakeState::MemFreeAsync(CUdeviceptr address, CUstream stream) {
  auto found = allocations.find(address);
  auto from = pooled.find(address);
  if (!valid_stream(stream) || found == allocations.end())
    return CUDA_ERROR_INVALID_HANDLE;
  if (from == pooled.end())
    return MemFree(address);
  const uint64_t bytes = found->second;
  const CUmemoryPool pool = from->second;
  CUresult result = MemFree(address);
  if (auto kept = pools.find(pool); kept != pools.end()) {
    used_bytes += bytes;
    kept->second->kept += bytes;
    (void)MemPoolTrimTo(pool, kept->second->threshold);
  }
  return result;
}

CUresult FakeState::MemHostAlloc(void **data, size_t bytes, unsigned flags) {
  if (!has_current())
    return CUDA_ERROR_INVALID_CONTEXT;
  *data = std::malloc(bytes);
  if (!*data)
    return CUDA_ERROR_OUT_OF_MEMORY;
  host_allocations[reinterpret_cast<CUdeviceptr>(*data)] = bytes;
  if (flags & CU_MEMHOSTALLOC_DEVICEMAP)
    mapped.insert(reinterpret_cast<CUdeviceptr>(*data));
  return CUDA_SUCCESS;
}

CUresult FakeState::MemHostGetDevicePointer(CUdeviceptr *address, void *data, unsigned) {
  *address = reinterpret_cast<CUdeviceptr>(data);
  return mapped.count(*address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult FakeState::MemFreeHost(void *data) {
  if (!host_allocations.erase(reinterpret_cast<CUdeviceptr>(data)))
    return CUDA_ERROR_INVALID_VALUE;
  mapped.erase(reinterpret_cast<CUdeviceptr>(data));
  std::free(data);
  return CUDA_SUCCESS;
}

CUresult FakeState::MemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (!has_current())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!valid_stream(stream))
    return CUDA_ERROR_INVALID_HANDLE;
  if (!device_range_ok(to, bytes) || !device_range_ok(from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  land(stream);
  if (options.execute)
    std::memmove(pointer(to), pointer(from), bytes);
  return CUDA_SUCCESS;
}

/// What comes from pageable memory reaches the device as late as it may.
CUresult FakeState::MemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream s) {
  if (!has_current())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!valid_stream(s))
    return CUDA_ERROR_INVALID_HANDLE;
  if (containing(host_allocations, reinterpret_cast<CUdeviceptr>(from)) != host_allocations.end())
    return MemcpyAsync(to, reinterpret_cast<CUdeviceptr>(from), bytes, s);
  if (!device_range_ok(to, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const auto *staged = static_cast<const std::byte *>(from);
  uploads[s].push_back({to, {staged, staged + bytes}});
  return CUDA_SUCCESS;
}

void FakeState::land(CUstream stream) {
  auto found = uploads.find(stream);
  if (found == uploads.end())
    return;
  for (const FakeUpload &upload : found->second)
    if (options.execute)
      std::memcpy(pointer(upload.to), upload.bytes.data(), upload.bytes.size());
  uploads.erase(found);
}

CUresult FakeState::MemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream s) {
  return MemcpyAsync(reinterpret_cast<CUdeviceptr>(to), from, bytes, s);
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

CUresult FakeState::MemsetD8Async(CUdeviceptr at, unsigned char value, size_t count, CUstream s) {
  if (!has_current())
    return CUDA_ERROR_INVALID_CONTEXT;
  return valid_stream(s) ? run_fill(at, value, 1, count) : CUDA_ERROR_INVALID_HANDLE;
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
  if (bytes > options.reservable_bytes)
    return CUDA_ERROR_OUT_OF_MEMORY;
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
