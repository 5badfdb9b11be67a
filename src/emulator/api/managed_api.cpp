// Managed memory: one address for host and device, and one copy of the bytes, so that nothing ever
// migrates. Advice and prefetches are checked and then have nothing to do.
#include "emulator/graph/stream.h"

namespace cugrt::emulator::api {

namespace {

/// [address, address + bytes) lies in one live managed allocation.
bool is_managed(Driver &driver, CUdeviceptr address, size_t bytes) {
  std::optional<MemoryRange> range = driver.allocations->find(address);
  return range && range->kind == MemoryKind::managed && bytes &&
         bytes <= range->bytes - (address - range->begin);
}

CUresult check_location(const CUmemLocation &location) {
  switch (location.type) {
  case CU_MEM_LOCATION_TYPE_DEVICE:
    return location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  case CU_MEM_LOCATION_TYPE_HOST:
  case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
    return CUDA_SUCCESS;
  case CU_MEM_LOCATION_TYPE_HOST_NUMA: // the device attribute HOST_NUMA_ID is -1
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

/// CU_DEVICE_CPU is the host in calls that take a device.
CUmemLocation location_of(CUdevice device) {
  CUmemLocation location{};
  location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  return location;
}

bool ignores_location(CUmem_advise advice) {
  return advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY ||
         advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
}

CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                const CUmemLocation &location) {
  return call([&](Driver &driver) -> CUresult {
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
      return CUDA_ERROR_INVALID_VALUE;
    if (!ignores_location(advice))
      CUGRT_EMU_TRY(check_location(location));
    return is_managed(driver, address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

/// Stands in the stream's order without doing anything.
CUresult mark(Driver &driver, CUstream handle) {
  Lock lock(driver.mutex);
  CUGRT_EMU_FIND(Stream, stream, find_stream, driver, handle);
  CUGRT_EMU_TRY(refuse_capture(driver, stream));
  return run_in_stream(driver, stream, EmptyWork{});
}

CUresult prefetch(CUdeviceptr address, size_t bytes, const CUmemLocation &location, unsigned flags,
                  CUstream stream) {
  return call([&](Driver &driver) -> CUresult {
    CUGRT_EMU_TRY(check_location(location));
    if (flags || !is_managed(driver, address, bytes)) // "flags for future use, must be zero now"
      return CUDA_ERROR_INVALID_VALUE;
    return mark(driver, stream);
  });
}

} // namespace

LOCKED_CALL(cuMemAllocManaged, out, bytes, flags) {
  // "Must be one of CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST"
  if (!out || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_FIND(Context, context, current_context, driver);
  CUGRT_EMU_TRY(refuse_unsafe(driver));
  MemoryRange range;
  CUGRT_EMU_TRY(driver.allocations->allocate(*driver.memory, bytes, MemoryKind::managed,
                                             context.get(), flags, &range));
  *out = range.begin;
  return CUDA_SUCCESS;
}

ENTRY(cuMemAdvise_v2, address, bytes, advice, location) {
  return advise(address, bytes, advice, location);
}

ENTRY(cuMemAdvise, address, bytes, advice, device) {
  return advise(address, bytes, advice, location_of(device));
}

ENTRY(cuMemPrefetchAsync_v2, address, bytes, location, flags, stream) {
  return prefetch(address, bytes, location, flags, stream);
}

ENTRY(cuMemPrefetchAsync, address, bytes, device, stream) {
  return prefetch(address, bytes, location_of(device), 0, stream);
}

CALL(cuStreamAttachMemAsync, handle, address, bytes, flags) {
  bool is_null = !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
  // "must be one of CUmemAttach_flags", "It is illegal to attach singly to the NULL stream"
  if ((flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
       flags != CU_MEM_ATTACH_SINGLE) ||
      (flags == CU_MEM_ATTACH_SINGLE && is_null))
    return CUDA_ERROR_INVALID_VALUE;
  // "length must be either zero or the entire allocation's size"
  std::optional<MemoryRange> range = driver.allocations->find(address);
  if (!range || range->kind != MemoryKind::managed || address != range->begin ||
      (bytes && bytes != range->bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return mark(driver, handle);
}

} // namespace cugrt::emulator::api
