// Allocations: device, pinned, registered, stream-ordered; and questions about pointers.
#include "base/on_throw.h"
#include "emulator/graph/stream.h"

namespace cugrt::emulator::api {

// `body` gets the driver and the current context, with the lock held. For calls that a capture
// forbids as potentially unsafe.
template <class Body> static CUresult memory_call(Body &&body) {
  return locked_call([&](Driver &driver, Lock &lock) -> CUresult {
    CUGRT_EMU_FIND(Context, context, current_context, driver);
    CUGRT_EMU_TRY(refuse_unsafe(driver));
    return body(driver, context, lock);
  });
}
#define MEMORY_CALL(...)                                                                           \
  GUARDED(memory_call(body), (Driver & driver, const Ref<Context> &context, Lock &lock),           \
          __VA_ARGS__)

static CUresult allocate(Driver &driver, const Ref<Context> &context, size_t bytes,
                         CUdeviceptr *out) {
  MemoryRange range;
  CUGRT_EMU_TRY(driver.allocations->allocate(*driver.memory, bytes, MemoryKind::device,
                                             context.get(), 0, &range));
  *out = range.begin;
  return CUDA_SUCCESS;
}

static CUresult allocate_host(void **out, size_t bytes, unsigned flags) {
  constexpr unsigned kFlags =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  return memory_call([&](Driver &driver, const Ref<Context> &context, Lock &) -> CUresult {
    if (!out || (flags & ~kFlags))
      return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    if (bytes == 0)
      return CUDA_SUCCESS;
    MemoryRange range;
    CUGRT_EMU_TRY(driver.allocations->allocate(*driver.memory, bytes, MemoryKind::pinned,
                                               context.get(), flags, &range));
    *out = reinterpret_cast<void *>(range.begin);
    return CUDA_SUCCESS;
  });
}

static void free_in_stream(Driver &driver, const Ref<Stream> &stream, CUdeviceptr address) {
  auto task = std::make_shared<Task>();
  task->kind = TaskKind::device;
  task->run_always = true; // memory comes back even after a fault
  task->action = [&driver, address](CUresult) {
    if (auto range = driver.allocations->find(address))
      driver.stream_order.forget(range->begin, range->bytes);
    driver.allocations->free(*driver.memory, address, MemoryKind::device_async);
    return CUDA_SUCCESS;
  };
  enqueue(driver, stream, task);
}

static uint64_t address_of(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

LOCKED_CALL(cuMemGetInfo_v2, free_bytes, total_bytes) {
  CUGRT_EMU_FIND(Context, context, current_context, driver);
  if (!free_bytes || !total_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  *total_bytes = driver.allocations->total_bytes();
  *free_bytes = *total_bytes - driver.allocations->used_bytes();
  return CUDA_SUCCESS;
}

MEMORY_CALL(cuMemAlloc_v2, out, bytes) {
  if (!out || !bytes) // "If bytesize is 0, cuMemAlloc() returns CUDA_ERROR_INVALID_VALUE."
    return CUDA_ERROR_INVALID_VALUE;
  return allocate(driver, context, bytes, out);
}

MEMORY_CALL(cuMemAllocPitch_v2, out, pitch, width, height, element_bytes) {
  // "ElementSizeBytes may be 4, 8, or 16"
  bool element = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
  if (!out || !pitch || !width || !height || !element || width > SIZE_MAX - 511)
    return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + 511) / 512 * 512;
  if (height > SIZE_MAX / *pitch)
    return CUDA_ERROR_OUT_OF_MEMORY;
  return allocate(driver, context, *pitch * height, out);
}

MEMORY_CALL(cuMemFree_v2, address) {
  if (!address)
    return CUDA_SUCCESS;
  // Work that uses it finishes first, as it does with the real driver.
  std::vector<TaskPtr> tasks = pending_work(driver, *context);
  CUGRT_EMU_TRY(driver.allocations->begin_free(address));
  std::optional<MemoryRange> range = driver.allocations->find(address);
  lock.unlock();
  wait_all_before_free(driver, tasks, range.value_or(MemoryRange{}));
  return driver.allocations->free(*driver.memory, address, MemoryKind::device);
}

CALL(cuMemGetAddressRange_v2, base, bytes, address) {
  std::optional<MemoryRange> range = driver.allocations->find(address);
  if (!range || !driver.memory->owns(address)) // "not found: CUDA_ERROR_NOT_FOUND"
    return CUDA_ERROR_NOT_FOUND;
  if (base)
    *base = range->device_address;
  if (bytes)
    *bytes = range->bytes;
  return CUDA_SUCCESS;
}

ENTRY(cuMemAllocHost_v2, out, bytes) {
  // With unified addressing such memory is mapped; cuMemHostAlloc maps it if asked.
  return allocate_host(out, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
}

ENTRY(cuMemHostAlloc, out, bytes, flags) { return allocate_host(out, bytes, flags); }

MEMORY_CALL(cuMemFreeHost, pointer) {
  if (!pointer)
    return CUDA_SUCCESS;
  std::vector<TaskPtr> tasks = pending_work(driver, *context);
  std::optional<MemoryRange> range = driver.allocations->find(address_of(pointer));
  lock.unlock();
  wait_all_before_free(driver, tasks, range.value_or(MemoryRange{}));
  return driver.allocations->free(*driver.memory, address_of(pointer), MemoryKind::pinned);
}

ENTRY(cuMemHostRegister_v2, pointer, bytes, flags) {
  constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                              CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  return memory_call([&](Driver &driver, const Ref<Context> &context, Lock &) -> CUresult {
    if (flags & ~kFlags)
      return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
      return driver.refuse("registering I/O memory is");
    return driver.allocations->register_host(*driver.memory, address_of(pointer), bytes, flags,
                                             context.get());
  });
}

MEMORY_CALL(cuMemHostUnregister, pointer) {
  return driver.allocations->unregister_host(*driver.memory, address_of(pointer));
}

CALL(cuMemHostGetDevicePointer_v2, out, pointer, flags) {
  CUGRT_EMU_FIND(Context, context, current_context, driver);
  if (!out || flags) // "Flags provides for future releases. For now, it must be set to 0."
    return CUDA_ERROR_INVALID_VALUE;
  std::optional<MemoryRange> range = driver.allocations->find(address_of(pointer));
  if (!range || (range->kind != MemoryKind::pinned && range->kind != MemoryKind::registered))
    return CUDA_ERROR_INVALID_VALUE;
  // "cuMemHostGetDevicePointer() will fail if the CU_MEMHOSTALLOC_DEVICEMAP flag was not
  // specified at the time the memory was allocated"
  static_assert(CU_MEMHOSTALLOC_DEVICEMAP == CU_MEMHOSTREGISTER_DEVICEMAP);
  if (!(range->flags & CU_MEMHOSTALLOC_DEVICEMAP)) {
    driver.set_message("the memory was allocated or registered without the flag DEVICEMAP");
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = range->device_address + (address_of(pointer) - range->begin);
  return CUDA_SUCCESS;
}

CALL(cuMemHostGetFlags, flags, pointer) {
  CUGRT_EMU_FIND(Context, context, current_context, driver);
  std::optional<MemoryRange> range = driver.allocations->find(address_of(pointer));
  if (!flags || !range || range->kind != MemoryKind::pinned)
    return CUDA_ERROR_INVALID_VALUE;
  // All pinned memory is mapped for the device.
  *flags = range->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuMemFreeAsync, address, handle) {
  CUGRT_EMU_FIND(Stream, stream, find_stream, driver, handle);
  // "During stream capture, this function [...] must therefore be passed the address of a graph
  // allocation": there are none.
  if (stream->capture)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_TRY(refuse_capture(driver, stream));
  CUGRT_EMU_TRY(refuse_unsafe(driver));
  CUGRT_EMU_TRY(driver.allocations->begin_free(address));
  const OnThrow undo([&] { driver.allocations->cancel_free(address); });
  free_in_stream(driver, stream, address);
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
