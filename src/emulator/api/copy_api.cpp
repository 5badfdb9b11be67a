// Copies and fills, synchronous and in streams.
//
// The synchronous ones run in the legacy stream and wait, which is what orders them after
// everything else. An asynchronous copy from pageable memory takes the bytes before it returns, and
// one to pageable memory returns when it is done, as documented ("API synchronization behavior").
//
// Where the order is drawn, synchronous copies do no more than that page promises: "For transfers
// from pageable host memory to device memory, a stream sync is performed before the copy is
// initiated. The function will return once the pageable buffer has been copied to the staging
// memory [...], but the DMA to final destination may not have completed", of whatever size; and
// "from device memory to device memory, no host-side synchronization is performed".
#include "emulator/driver/memory/copy.h"
#include "emulator/graph/stream.h"

namespace cugrt::emulator::api {

namespace {

bool linear(const CUDA_MEMCPY3D &c) { return c.Height == 1 && c.Depth == 1; }

bool on_device(Driver &driver, uint64_t address) {
  std::optional<MemoryRange> range = driver.allocations->find(address);
  return range && (range->kind == MemoryKind::device || range->kind == MemoryKind::device_async ||
                   range->kind == MemoryKind::mapped);
}

/// Puts the work into the stream, and where the caller waits for it, does so without the lock.
CUresult run_and_wait(Driver &driver, const Ref<Stream> &stream, Work work, bool wait, Lock &lock) {
  TaskPtr task;
  CUGRT_EMU_TRY(run_in_stream(driver, stream, std::move(work), &task, wait));
  if (!wait || !task)
    return CUDA_SUCCESS;
  lock.unlock();
  driver.scheduler->wait(task);
  return driver.scheduler->poison();
}

CUresult copy_in_stream(Driver &driver, CUstream handle, const CUDA_MEMCPY3D &copy, bool wait) {
  Lock lock(driver.mutex);
  CUGRT_EMU_FIND(Stream, stream, find_stream, driver, handle);
  CUGRT_EMU_TRY(check_copy(driver, copy));
  if (wait) { // a synchronising call cannot be captured
    CUGRT_EMU_TRY(refuse_capture(driver, stream));
    CUGRT_EMU_TRY(refuse_unsafe(driver));
  }
  CopyWork work{copy, stream->context, green_of(driver, *stream), nullptr};
  uint64_t source = source_of(copy);
  bool from_pageable = is_pageable(driver, source),
       to_pageable = is_pageable(driver, destination_of(copy));
  if (wait && driver.scheduler->draws_order() && on_device(driver, destination_of(copy)) &&
      ((from_pageable && linear(copy)) || on_device(driver, source))) {
    wait = false;
    if (from_pageable)
      CUGRT_EMU_TRY(synchronize(driver, stream, lock));
  }
  if (!wait && !stream->capture && from_pageable && linear(copy) && copy.WidthInBytes) {
    const auto *begin = reinterpret_cast<const std::byte *>(source) + copy.srcXInBytes;
    work.staged = std::make_shared<std::vector<std::byte>>(begin, begin + copy.WidthInBytes);
  }
  wait = wait || to_pageable || (from_pageable && !work.staged);
  return run_and_wait(driver, stream, std::move(work), wait, lock);
}

CUresult copy(CUstream stream, const CUDA_MEMCPY3D &copy, bool wait = false) {
  return call([&](Driver &driver) { return copy_in_stream(driver, stream, copy, wait); });
}
/// Copies in the legacy stream and waits for it.
CUresult copy(const CUDA_MEMCPY3D &parameters) { return copy(nullptr, parameters, true); }

CUDA_MEMCPY3D host_to_device(CUdeviceptr to, const void *from, size_t bytes) {
  CUDA_MEMCPY3D c = linear_copy(to, 0, bytes);
  c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = from;
  return c;
}

CUDA_MEMCPY3D device_to_host(void *to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D c = linear_copy(0, from, bytes);
  c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  c.dstMemoryType = CU_MEMORYTYPE_HOST;
  c.dstHost = to;
  return c;
}

CUDA_MEMCPY3D device_to_device(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D c = linear_copy(to, from, bytes);
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  return c;
}

CUresult refuse() {
  return call([](Driver &) { return CUDA_ERROR_INVALID_VALUE; });
}

CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D &p) {
  CUDA_MEMCPY3D c{};
  c.srcXInBytes = p.srcXInBytes;
  c.srcY = p.srcY;
  c.srcMemoryType = p.srcMemoryType;
  c.srcHost = p.srcHost;
  c.srcDevice = p.srcDevice;
  c.srcPitch = p.srcPitch;
  c.dstXInBytes = p.dstXInBytes;
  c.dstY = p.dstY;
  c.dstMemoryType = p.dstMemoryType;
  c.dstHost = p.dstHost;
  c.dstDevice = p.dstDevice;
  c.dstPitch = p.dstPitch;
  c.WidthInBytes = p.WidthInBytes;
  c.Height = p.Height;
  c.Depth = 1;
  return c;
}

CUresult fill(CUstream handle, const CUDA_MEMSET_NODE_PARAMS &parameters,
              bool is_synchronous = false) {
  return locked_call([&](Driver &driver, Lock &lock) -> CUresult {
    CUGRT_EMU_FIND(Stream, stream, find_stream, driver, handle);
    FillWork work{parameters, stream->context, green_of(driver, *stream)};
    CUGRT_EMU_TRY(check_fill(driver, work.fill));
    // "The synchronous memset functions are asynchronous with respect to the host except when the
    // target is pinned host memory or a Unified Memory region"
    const bool wait = is_synchronous && !on_device(driver, work.fill.dst);
    return run_and_wait(driver, stream, std::move(work), wait, lock);
  });
}
CUresult fill(const CUDA_MEMSET_NODE_PARAMS &parameters) { return fill(nullptr, parameters, true); }

} // namespace

ENTRY(cuMemcpy, to, from, bytes) { return copy(linear_copy(to, from, bytes)); }
ENTRY(cuMemcpyHtoD_v2, to, from, bytes) { return copy(host_to_device(to, from, bytes)); }
ENTRY(cuMemcpyDtoH_v2, to, from, bytes) { return copy(device_to_host(to, from, bytes)); }
ENTRY(cuMemcpyDtoD_v2, to, from, bytes) { return copy(device_to_device(to, from, bytes)); }
ENTRY(cuMemcpy2D_v2, p) { return p ? copy(from_2d(*p)) : refuse(); }
ENTRY(cuMemcpy2DUnaligned_v2, p) { return p ? copy(from_2d(*p)) : refuse(); }
ENTRY(cuMemcpy3D_v2, p) { return p ? copy(*p) : refuse(); }
ENTRY(cuMemcpyAsync, to, from, bytes, stream) { return copy(stream, linear_copy(to, from, bytes)); }
ENTRY(cuMemcpyHtoDAsync_v2, to, from, bytes, stream) {
  return copy(stream, host_to_device(to, from, bytes));
}
ENTRY(cuMemcpyDtoHAsync_v2, to, from, bytes, stream) {
  return copy(stream, device_to_host(to, from, bytes));
}
ENTRY(cuMemcpyDtoDAsync_v2, to, from, bytes, stream) {
  return copy(stream, device_to_device(to, from, bytes));
}
ENTRY(cuMemcpy2DAsync_v2, p, stream) { return p ? copy(stream, from_2d(*p)) : refuse(); }
ENTRY(cuMemcpy3DAsync_v2, p, stream) { return p ? copy(stream, *p) : refuse(); }
ENTRY(cuMemsetD8_v2, to, value, n) { return fill({to, 0, value, 1, n, 1}); }
ENTRY(cuMemsetD16_v2, to, value, n) { return fill({to, 0, value, 2, n, 1}); }
ENTRY(cuMemsetD32_v2, to, value, n) { return fill({to, 0, value, 4, n, 1}); }
ENTRY(cuMemsetD2D8_v2, to, pitch, value, w, h) { return fill({to, pitch, value, 1, w, h}); }
ENTRY(cuMemsetD2D16_v2, to, pitch, value, w, h) { return fill({to, pitch, value, 2, w, h}); }
ENTRY(cuMemsetD2D32_v2, to, pitch, value, w, h) { return fill({to, pitch, value, 4, w, h}); }
ENTRY(cuMemsetD8Async, to, value, n, stream) { return fill(stream, {to, 0, value, 1, n, 1}); }
ENTRY(cuMemsetD16Async, to, value, n, stream) { return fill(stream, {to, 0, value, 2, n, 1}); }
ENTRY(cuMemsetD32Async, to, value, n, stream) { return fill(stream, {to, 0, value, 4, n, 1}); }
ENTRY(cuMemsetD2D8Async, to, pitch, value, w, h, stream) {
  return fill(stream, {to, pitch, value, 1, w, h});
}
ENTRY(cuMemsetD2D16Async, to, pitch, value, w, h, stream) {
  return fill(stream, {to, pitch, value, 2, w, h});
}
ENTRY(cuMemsetD2D32Async, to, pitch, value, w, h, stream) {
  return fill(stream, {to, pitch, value, 4, w, h});
}

} // namespace cugrt::emulator::api
