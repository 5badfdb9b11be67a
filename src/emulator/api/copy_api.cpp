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

CUresult copy(CUstream stream, const CUDA_MEMCPY3D &parameters, bool wait) {
  return call([&](Driver &driver) { return copy_in_stream(driver, stream, parameters, wait); });
}

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

template <class Parameters, class Convert>
CUresult copy_from(CUstream stream, const Parameters *p, bool wait, Convert &&convert) {
  if (!p)
    return call([](Driver &) { return CUDA_ERROR_INVALID_VALUE; });
  return copy(stream, convert(*p), wait);
}

constexpr CUstream kLegacy = nullptr;

CUresult fill(CUstream handle, CUdeviceptr to, size_t pitch, unsigned value, unsigned element,
              size_t width, size_t height, bool is_synchronous = false) {
  return locked_call([&](Driver &driver, Lock &lock) -> CUresult {
    CUGRT_EMU_FIND(Stream, stream, find_stream, driver, handle);
    FillWork work{
        {to, pitch, value, element, width, height}, stream->context, green_of(driver, *stream)};
    CUGRT_EMU_TRY(check_fill(driver, work.fill));
    // "The synchronous memset functions are asynchronous with respect to the host except when the
    // target is pinned host memory or a Unified Memory region"
    const bool wait = is_synchronous && !on_device(driver, to);
    return run_and_wait(driver, stream, std::move(work), wait, lock);
  });
}

} // namespace

} // namespace cugrt::emulator::api

using namespace cugrt::emulator;
using namespace cugrt::emulator::api;

CUresult CUDAAPI cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy(kLegacy, linear_copy(to, from, bytes), true);
}

CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return copy(kLegacy, host_to_device(to, from, bytes), true);
}

CUresult CUDAAPI cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return copy(kLegacy, device_to_host(to, from, bytes), true);
}

CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy(kLegacy, device_to_device(to, from, bytes), true);
}

CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D *p) {
  return copy_from(kLegacy, p, true, from_2d);
}

CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p) {
  return copy_from(kLegacy, p, true, from_2d);
}

CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D *p) {
  return copy_from(kLegacy, p, true, [](const CUDA_MEMCPY3D &c) { return c; });
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy(stream, linear_copy(to, from, bytes), false);
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                      CUstream stream) {
  return copy(stream, host_to_device(to, from, bytes), false);
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy(stream, device_to_host(to, from, bytes), false);
}

CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                      CUstream stream) {
  return copy(stream, device_to_device(to, from, bytes), false);
}

CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream stream) {
  return copy_from(stream, p, false, from_2d);
}

CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream stream) {
  return copy_from(stream, p, false, [](const CUDA_MEMCPY3D &c) { return c; });
}

CUresult CUDAAPI cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return fill(kLegacy, to, 0, value, 1, count, 1, true);
}

CUresult CUDAAPI cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return fill(kLegacy, to, 0, value, 2, count, 1, true);
}

CUresult CUDAAPI cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return fill(kLegacy, to, 0, value, 4, count, 1, true);
}

CUresult CUDAAPI cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                                 size_t height) {
  return fill(kLegacy, to, pitch, value, 1, width, height, true);
}

CUresult CUDAAPI cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                                  size_t height) {
  return fill(kLegacy, to, pitch, value, 2, width, height, true);
}

CUresult CUDAAPI cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                                  size_t height) {
  return fill(kLegacy, to, pitch, value, 4, width, height, true);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                 CUstream stream) {
  return fill(stream, to, 0, value, 1, count, 1);
}

CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                                  CUstream stream) {
  return fill(stream, to, 0, value, 2, count, 1);
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count,
                                  CUstream stream) {
  return fill(stream, to, 0, value, 4, count, 1);
}

CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                                   size_t height, CUstream stream) {
  return fill(stream, to, pitch, value, 1, width, height);
}

CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value,
                                    size_t width, size_t height, CUstream stream) {
  return fill(stream, to, pitch, value, 2, width, height);
}

CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                                    size_t height, CUstream stream) {
  return fill(stream, to, pitch, value, 4, width, height);
}
