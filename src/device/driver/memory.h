// Device memory, pinned host memory, a range of virtual device addresses, and the copies between
// them.
#pragma once

#include "device/driver/stream.h"

#include <cstddef>
#include <span>
#include <vector>

namespace cugrt::driver {

/// Plain device memory, aligned to at least 256 bytes. A size of zero allocates nothing: address 0.
class DeviceBuffer {
public:
  using Handle = UniqueHandle<CUdeviceptr, &DriverApi::MemFree, kInContext>;

  DeviceBuffer() = default;
  static Result<DeviceBuffer> allocate(const Context &context, uint64_t size_bytes);

  uint64_t address() const { return handle_.get(); }
  uint64_t size_bytes() const { return size_bytes_; }
  explicit operator bool() const { return static_cast<bool>(handle_); }

private:
  DeviceBuffer(Handle handle, uint64_t size_bytes)
      : handle_(std::move(handle)), size_bytes_(size_bytes) {}
  Handle handle_;
  uint64_t size_bytes_ = 0;
};

/// Allocates and frees memory in stream order. The pool keeps freed memory; the device's own pool
/// gives it back to the system whenever anything waits.
class MemoryPool {
public:
  using Handle = UniqueHandle<CUmemoryPool, &DriverApi::MemPoolDestroy, kAnywhere>;

  MemoryPool() = default;
  /// Needs Capabilities::async_allocation and a device that has pools.
  static Result<MemoryPool> create(const Context &context);
  explicit operator bool() const { return static_cast<bool>(handle_); }

  /// Context current.
  Result<uint64_t> allocate(uint64_t size_bytes, StreamRef stream) const;
  /// Gives back all unused memory, as far as the progress of streams is known.
  Status trim() const;

private:
  explicit MemoryPool(Handle handle) : handle_(std::move(handle)) {}
  Handle handle_;
};

/// Page-locked host memory, visible to the device where it has unified addressing.
class PinnedBuffer {
public:
  using Handle = UniqueHandle<void *, &DriverApi::MemFreeHost, kInContext>;

  PinnedBuffer() = default;
  static Result<PinnedBuffer> allocate(const Context &context, uint64_t size_bytes);

  void *data() const { return handle_.get(); }
  /// The bytes' address on the device; the buffer must not be empty.
  Result<uint64_t> device_address(const Context &context) const;
  uint64_t size_bytes() const { return size_bytes_; }
  explicit operator bool() const { return static_cast<bool>(handle_); }

private:
  PinnedBuffer(Handle handle, uint64_t size_bytes)
      : handle_(std::move(handle)), size_bytes_(size_bytes) {}
  Handle handle_;
  uint64_t size_bytes_ = 0;
};

/// Pages of host memory that the device reads where they lie. The memory stays the caller's, and
/// outlives this.
class RegisteredPages {
public:
  using Handle = UniqueHandle<void *, &DriverApi::MemHostUnregister, kInContext>;

  RegisteredPages() = default;
  /// Whether reading registered pages costs the same as reading device memory: the device has no
  /// memory of its own, and driver and device can register pages.
  static Result<bool> worthwhile(const Context &context);
  /// Registers whole pages. Returns the driver's error, whatever its reason, if it refuses.
  static Result<RegisteredPages> add(const Context &context, const void *begin,
                                     uint64_t size_bytes);

  uint64_t device_address() const { return device_address_; }
  uint64_t size_bytes() const { return size_bytes_; }

private:
  explicit RegisteredPages(Handle handle) : handle_(std::move(handle)) {}
  Handle handle_;
  uint64_t device_address_ = 0, size_bytes_ = 0;
};

/// A reservation of device addresses whose pages are committed from the front, as needed: addresses
/// stay, memory grows. Needs Capabilities::virtual_memory and a device that has it.
class VirtualRange {
public:
  /// True when driver and device can.
  static Result<bool> available(const Context &context);
  static Result<VirtualRange> reserve(const Context &context, uint64_t size_bytes);

  VirtualRange() = default;
  VirtualRange(VirtualRange &&other) noexcept;
  VirtualRange &operator=(VirtualRange &&other) noexcept;
  ~VirtualRange();

  uint64_t address() const { return address_; }
  uint64_t size_bytes() const { return size_bytes_; }
  uint64_t committed_bytes() const { return committed_bytes_; }
  uint64_t granularity_bytes() const { return granularity_bytes_; }

  /// Committed bytes once the first `size_bytes` (at most all) are backed.
  uint64_t committed_for(uint64_t size_bytes) const {
    return (size_bytes + granularity_bytes_ - 1) / granularity_bytes_ * granularity_bytes_;
  }
  /// Backs at least the first `size_bytes` with memory. On failure what was committed stays.
  Status commit(uint64_t size_bytes);
  /// Gives back the memory of all commits from `offset_bytes` on and keeps the addresses. Nothing
  /// uses the memory any more. After an error some of it is still there.
  Status uncommit(uint64_t offset_bytes = 0);

private:
  struct Page {
    CUmemGenericAllocationHandle handle;
    uint64_t offset_bytes, size_bytes;
  };
  CUresult unmap(uint64_t offset_bytes = 0) noexcept;
  void release() noexcept;

  const DriverApi *api_ = nullptr;
  CUcontext context_ = nullptr;
  CUdevice device_ = 0;
  uint64_t address_ = 0, size_bytes_ = 0, committed_bytes_ = 0, granularity_bytes_ = 0;
  std::vector<Page> pages_;
};

/// Copies between any two kinds of memory (host addresses are device addresses under unified
/// addressing), in stream order. Context current.
Status copy_async(StreamRef stream, uint64_t destination, uint64_t source, uint64_t size_bytes);
/// Sets `count` elements of 1, 2 or 4 bytes, in stream order. Context current.
Status fill_async(StreamRef stream, uint64_t destination, uint32_t value, uint32_t element_bytes,
                  uint64_t count);
/// Copies that return when done, even if the driver only staged the host's bytes: they run on a
/// stream of the context's own, and wait for it. They make the context current themselves.
Status copy_to_device(const Context &context, uint64_t destination, const void *source,
                      uint64_t size_bytes);
Status copy_to_host(const Context &context, void *destination, uint64_t source,
                    uint64_t size_bytes);

} // namespace cugrt::driver
