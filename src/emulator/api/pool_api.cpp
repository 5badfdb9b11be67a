// Memory pools of the device. Memory is taken when it is allocated and given back when it is freed,
// so that a pool's reserved memory equals its used memory; its reuse settings are kept and change
// nothing.
#include "emulator/graph/stream.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator::api {

namespace {

Ref<MemoryPool> make_pool(Driver &driver, uint64_t max_bytes) {
  auto pool = std::make_shared<MemoryPool>();
  pool->max_bytes = max_bytes;
  driver.pools.insert(pool);
  return pool;
}

// The device's own pool is there from the first question on.
Ref<MemoryPool> default_pool(Driver &driver) {
  if (!driver.default_pool)
    driver.default_pool = make_pool(driver, 0);
  return driver.default_pool;
}

Ref<MemoryPool> current_pool(Driver &driver) {
  Ref<MemoryPool> pool = driver.current_pool.lock();
  return pool && driver.pools.find(pool->handle) ? pool : default_pool(driver);
}

CUresult check_location(Driver &driver, const CUmemLocation *location, CUmemAllocationType type) {
  if (!location)
    return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
    return driver.refuse("memory pools of managed memory are");
  if (location->type == CU_MEM_LOCATION_TYPE_HOST ||
      location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
    return driver.refuse("memory pools on the host are");
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  return location->id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/// Body gets the driver and the live pool, with the lock.
template <class Body> CUresult pool_call(CUmemoryPool handle, Body &&body) {
  return locked_call([&](Driver &driver) -> CUresult {
    Ref<MemoryPool> pool = driver.pools.find(handle);
    return pool ? body(driver, pool) : CUDA_ERROR_INVALID_VALUE;
  });
}
#define POOL_CALL(...)                                                                             \
  GUARDED(pool_call(handle, body), (Driver & driver, const Ref<MemoryPool> &pool), __VA_ARGS__)

template <class Which> CUresult give_pool(CUmemoryPool *out, CUdevice device, Which &&which) {
  return call([&](Driver &driver) -> CUresult {
    if (!out)
      return CUDA_ERROR_INVALID_VALUE;
    if (device != 0)
      return CUDA_ERROR_INVALID_DEVICE;
    Lock lock(driver.mutex);
    *out = which(driver)->handle;
    return CUDA_SUCCESS;
  });
}

CUresult set_current(Driver &driver, CUmemoryPool handle) {
  Lock lock(driver.mutex);
  CUGRT_EMU_NEED(MemoryPool, pool, driver.pools.find(handle), CUDA_ERROR_INVALID_VALUE);
  driver.current_pool = pool;
  return CUDA_SUCCESS;
}

int *reuse_setting(MemoryPool &pool, CUmemPool_attribute attribute) {
  bool is_one = attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
                attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
  return is_one ? &pool.reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES]
                : nullptr;
}

CUresult get_attribute(MemoryPool &pool, CUmemPool_attribute attribute, void *value) {
  if (int *setting = reuse_setting(pool, attribute)) {
    std::memcpy(value, setting, sizeof *setting);
    return CUDA_SUCCESS;
  }
  cuuint64_t number = 0;
  switch (attribute) {
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
    number = pool.release_threshold;
    break;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
  case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    number = pool.used_bytes;
    break;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    number = pool.reserved_high;
    break;
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    number = pool.used_high;
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::memcpy(value, &number, sizeof number);
  return CUDA_SUCCESS;
}

CUresult set_attribute(MemoryPool &pool, CUmemPool_attribute attribute, const void *value) {
  if (int *setting = reuse_setting(pool, attribute)) {
    std::memcpy(setting, value, sizeof *setting);
    return CUDA_SUCCESS;
  }
  cuuint64_t number = 0;
  std::memcpy(&number, value, sizeof number);
  switch (attribute) {
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
    pool.release_threshold = number;
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    if (number) // "High watermark can only be reset to zero."
      return CUDA_ERROR_INVALID_VALUE;
    (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? pool.used_high : pool.reserved_high) =
        pool.used_bytes.load();
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

} // namespace

CUresult allocate_from_pool(Driver &driver, size_t bytes, CUstream handle,
                            const Ref<MemoryPool> &named, CUdeviceptr *out) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  bytes = std::max<size_t>(bytes, 1); // unlike cuMemAlloc's, no comment forbids 0
  CUGRT_EMU_FIND(Stream, stream, find_stream, driver, handle);
  if (stream->capture)
    return driver.refuse("allocating memory in a captured stream is");
  CUGRT_EMU_TRY(refuse_capture(driver, stream));
  Ref<MemoryPool> pool = named ? named : current_pool(driver);
  // Only memory freed in stream order comes back later, on the device thread.
  if (pool->max_bytes &&
      bytes > pool->max_bytes - std::min<uint64_t>(pool->used_bytes, pool->max_bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  // The address is known at once; memory is taken at once too, so that exhaustion shows here.
  MemoryRange range;
  CUGRT_EMU_TRY(driver.allocations->allocate(*driver.memory, bytes, MemoryKind::device_async,
                                             nullptr, 0, &range, pool));
  *out = range.begin;
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuMemAllocAsync, out, bytes, stream) {
  return allocate_from_pool(driver, bytes, stream, nullptr, out);
}

POOL_CALL(cuMemAllocFromPoolAsync, out, bytes, handle, stream) {
  return allocate_from_pool(driver, bytes, stream, pool, out);
}

CALL(cuMemPoolCreate, out, props) {
  if (!out || !props)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_TRY(check_location(driver, &props->location, props->allocType));
  if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return driver.refuse("memory that processes share is");
  Lock lock(driver.mutex);
  CUGRT_EMU_TRY(refuse_unsafe(driver));
  *out = make_pool(driver, props->maxSize)->handle;
  return CUDA_SUCCESS;
}

// "If any pointers obtained from this pool haven't been freed [...] the resources will be released
// automatically once there're no more outstanding allocations": they keep it alive.
POOL_CALL(cuMemPoolDestroy, handle) {
  // "A device's default memory pool cannot be destroyed."
  if (pool == driver.default_pool)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_TRY(refuse_unsafe(driver));
  driver.pools.erase(handle);
  return CUDA_SUCCESS;
}

POOL_CALL(cuMemPoolTrimTo, handle, least_bytes) { return refuse_unsafe(driver); }

POOL_CALL(cuMemPoolGetAttribute, handle, attribute, value) {
  CUGRT_EMU_TRY(refuse_unsafe(driver));
  return value ? get_attribute(*pool, attribute, value) : CUDA_ERROR_INVALID_VALUE;
}

POOL_CALL(cuMemPoolSetAttribute, handle, attribute, value) {
  CUGRT_EMU_TRY(refuse_unsafe(driver));
  return value ? set_attribute(*pool, attribute, value) : CUDA_ERROR_INVALID_VALUE;
}

// The one device always has read and write access to its pools.
POOL_CALL(cuMemPoolSetAccess, handle, map, count) {
  for (size_t i = 0; i < count; ++i) {
    if (!map || map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    if (map[i].location.id != 0)
      return CUDA_ERROR_INVALID_DEVICE;
    // "Revoking access to the device on which the pool resides" is refused.
    if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

POOL_CALL(cuMemPoolGetAccess, flags, handle, location) {
  if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (location->id != 0)
    return CUDA_ERROR_INVALID_DEVICE;
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetDefaultMemPool, out, device) { return give_pool(out, device, default_pool); }
ENTRY(cuDeviceGetMemPool, out, device) { return give_pool(out, device, current_pool); }

CALL(cuDeviceSetMemPool, device, pool) {
  return device == 0 ? set_current(driver, pool) : CUDA_ERROR_INVALID_DEVICE;
}

ENTRY(cuMemGetDefaultMemPool, out, location, type) {
  CUresult result = call([&](Driver &driver) { return check_location(driver, location, type); });
  return result == CUDA_SUCCESS ? give_pool(out, location->id, default_pool) : result;
}

ENTRY(cuMemGetMemPool, out, location, type) {
  CUresult result = call([&](Driver &driver) { return check_location(driver, location, type); });
  return result == CUDA_SUCCESS ? give_pool(out, location->id, current_pool) : result;
}

CALL(cuMemSetMemPool, location, type, pool) {
  CUGRT_EMU_TRY(check_location(driver, location, type));
  return set_current(driver, pool);
}

} // namespace cugrt::emulator::api
