// Device and pinned memory, virtual ranges, copies and fills.
#include "device/driver/memory.h"

#include "base/checked_math.h"
#include "device/driver/driver_error.h"

namespace cugrt::driver {

static std::string bytes_text(uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

/// The error of a failed device allocation, with the figures that tell whether it could ever fit.
static Status allocation_error(const DriverApi &api, CUresult result, const char *call,
                               uint64_t bytes) {
  std::string object = bytes_text(bytes);
  size_t free_bytes = 0, total_bytes = 0;
  if (classify(result) == ErrorClass::out_of_memory &&
      api.MemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS)
    object += "; " + std::to_string(free_bytes) + " of " + bytes_text(total_bytes) + " are free";
  return driver_error(api, result, call, object);
}

static CUmemAllocationProp pinned_on(CUdevice device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  return prop;
}

static bool has_virtual_memory(const DriverApi &api) {
  return api.MemAddressReserve && api.MemAddressFree && api.MemCreate && api.MemRelease &&
         api.MemMap && api.MemUnmap && api.MemSetAccess && api.MemGetAllocationGranularity;
}

/// Rounds up to a multiple of any unit; empty on overflow.
static std::optional<uint64_t> round_up(uint64_t value, uint64_t unit) {
  uint64_t sum;
  if (__builtin_add_overflow(value, unit - 1, &sum) || sum > INT64_MAX)
    return std::nullopt;
  return sum / unit * unit;
}

Result<DeviceBuffer> DeviceBuffer::allocate(const Context &context, uint64_t size_bytes) {
  if (size_bytes == 0)
    return DeviceBuffer();
  const DriverApi &api = context.api();
  CUGRT_ASSIGN(ContextGuard guard, context.enter());
  CUdeviceptr address = 0;
  if (CUresult result = api.MemAlloc(&address, size_bytes); result != CUDA_SUCCESS)
    return allocation_error(api, result, "cuMemAlloc", size_bytes);
  return DeviceBuffer({&api, context.get(), address}, size_bytes);
}

Result<MemoryPool> MemoryPool::create(const Context &context) {
  const DriverApi &api = context.api();
  CUGRT_ASSIGN(ContextGuard guard, context.enter());
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = context.device();
  CUmemoryPool handle = nullptr;
  CUGRT_DRIVER(api, MemPoolCreate, (&handle, &props), "");
  MemoryPool pool({&api, context.get(), handle});
  uint64_t keep_all = UINT64_MAX;
  CUGRT_DRIVER(api, MemPoolSetAttribute, (handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all),
               "the release threshold");
  return pool;
}

Result<uint64_t> MemoryPool::allocate(uint64_t size_bytes, StreamRef stream) const {
  const DriverApi &api = stream.api();
  RelaxedCapture relaxed(api);
  CUdeviceptr address = 0;
  if (CUresult result =
          api.MemAllocFromPoolAsync(&address, size_bytes, handle_.get(), stream.get());
      result != CUDA_SUCCESS)
    return allocation_error(api, result, "cuMemAllocFromPoolAsync", size_bytes);
  return uint64_t(address);
}

Status MemoryPool::trim() const {
  RelaxedCapture relaxed(handle_.api());
  CUGRT_DRIVER(handle_.api(), MemPoolTrimTo, (handle_.get(), 0), "");
  return {};
}

Result<PinnedBuffer> PinnedBuffer::allocate(const Context &context, uint64_t size_bytes) {
  if (size_bytes == 0)
    return PinnedBuffer();
  const DriverApi &api = context.api();
  CUGRT_ASSIGN(ContextGuard guard, context.enter());
  void *data = nullptr;
  CUresult result =
      api.MemHostAlloc(&data, size_bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  // For this call, the driver's "out of memory" means the host's.
  if (classify(result) == ErrorClass::out_of_memory)
    return Status::error(Code::out_of_host_memory,
                         "cuMemHostAlloc (" + bytes_text(size_bytes) +
                             "): no page-locked memory left; see ulimit -l")
        .with_cuda_error(error_name(api, result));
  if (result != CUDA_SUCCESS)
    return driver_error(api, result, "cuMemHostAlloc", bytes_text(size_bytes));
  return PinnedBuffer({&api, context.get(), data}, size_bytes);
}

Result<uint64_t> PinnedBuffer::device_address(const Context &context) const {
  const DriverApi &api = context.api();
  CUGRT_ASSIGN(ContextGuard guard, context.enter());
  CUdeviceptr address = 0;
  if (api.MemHostGetDevicePointer)
    CUGRT_DRIVER(api, MemHostGetDevicePointer, (&address, data(), 0), "a pinned buffer");
  // Under unified addressing there is one address.
  return address ? address : reinterpret_cast<uintptr_t>(data());
}

Result<bool> RegisteredPages::worthwhile(const Context &context) {
  const DriverApi &api = context.api();
  if (!api.MemHostRegister || !api.MemHostUnregister || !api.MemHostGetDevicePointer)
    return false;
  CUGRT_ASSIGN(const int integrated, context.attribute(CU_DEVICE_ATTRIBUTE_INTEGRATED));
  CUGRT_ASSIGN(const int registers, context.attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED));
  return integrated != 0 && registers != 0;
}

Result<RegisteredPages> RegisteredPages::add(const Context &context, const void *begin,
                                             uint64_t size_bytes) {
  const DriverApi &api = context.api();
  // Without the flag a driver refuses pages that the program itself may only read.
  CUGRT_ASSIGN(const int read_only,
               context.attribute(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED));
  CUGRT_ASSIGN(ContextGuard guard, context.enter());
  void *const pages = const_cast<void *>(begin);
  CUGRT_DRIVER(api, MemHostRegister,
               (pages, size_bytes,
                CU_MEMHOSTREGISTER_DEVICEMAP | (read_only ? CU_MEMHOSTREGISTER_READ_ONLY : 0)),
               bytes_text(size_bytes));
  RegisteredPages made({&api, context.get(), pages});
  CUdeviceptr address = 0;
  CUGRT_DRIVER(api, MemHostGetDevicePointer, (&address, pages, 0), "registered pages");
  made.device_address_ = address;
  made.size_bytes_ = size_bytes;
  return made;
}

Result<bool> VirtualRange::available(const Context &context) {
  const DriverApi &api = context.api();
  if (!has_virtual_memory(api))
    return false;
  CUGRT_ASSIGN(int value,
               context.attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
  if (value == 0)
    return false;
  // A device may claim the attribute although its driver cannot do it.
  CUGRT_ASSIGN(ContextGuard guard, context.enter());
  CUmemAllocationProp prop = pinned_on(context.device());
  size_t granularity = 0;
  CUresult result =
      api.MemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (classify(result) == ErrorClass::unsupported)
    return false;
  if (result != CUDA_SUCCESS)
    return driver_error(api, result, "cuMemGetAllocationGranularity", "");
  return granularity != 0;
}

Result<VirtualRange> VirtualRange::reserve(const Context &context, uint64_t size_bytes) {
  const DriverApi &api = context.api();
  CUGRT_ASSIGN(bool usable, available(context));
  if (!usable)
    return Status::error(Code::unsupported, "this device has no virtual memory management");
  CUGRT_ASSIGN(ContextGuard guard, context.enter());
  CUmemAllocationProp prop = pinned_on(context.device());
  size_t granularity = 0;
  CUGRT_DRIVER(api, MemGetAllocationGranularity,
               (&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "");
  auto size = round_up(size_bytes ? size_bytes : 1, granularity ? granularity : 1);
  if (!granularity || !size)
    return Status::error(Code::out_of_range,
                         "cannot reserve " + bytes_text(size_bytes) + " of device addresses");
  VirtualRange range;
  CUdeviceptr address = 0;
  CUGRT_DRIVER(api, MemAddressReserve, (&address, *size, 0, 0, 0), bytes_text(*size));
  range.api_ = &api;
  range.context_ = context.get();
  range.device_ = context.device();
  range.address_ = address;
  range.size_bytes_ = *size;
  range.granularity_bytes_ = granularity;
  return range;
}

VirtualRange::VirtualRange(VirtualRange &&other) noexcept
    : api_(other.api_), context_(other.context_), device_(other.device_),
      address_(std::exchange(other.address_, 0)), size_bytes_(std::exchange(other.size_bytes_, 0)),
      committed_bytes_(std::exchange(other.committed_bytes_, 0)),
      granularity_bytes_(other.granularity_bytes_), pages_(std::move(other.pages_)) {
  other.pages_.clear();
}

VirtualRange &VirtualRange::operator=(VirtualRange &&other) noexcept {
  VirtualRange moved(std::move(other));
  std::swap(api_, moved.api_);
  std::swap(context_, moved.context_);
  std::swap(device_, moved.device_);
  std::swap(address_, moved.address_);
  std::swap(size_bytes_, moved.size_bytes_);
  std::swap(committed_bytes_, moved.committed_bytes_);
  std::swap(granularity_bytes_, moved.granularity_bytes_);
  std::swap(pages_, moved.pages_);
  return *this;
}

VirtualRange::~VirtualRange() { release(); }

Status VirtualRange::uncommit(uint64_t offset_bytes) {
  const CUresult result = unmap(offset_bytes);
  return result == CUDA_SUCCESS ? Status() : driver_error(*api_, result, "cuMemUnmap", "");
}

/// Unmaps pages from the back, until one fails.
CUresult VirtualRange::unmap(uint64_t offset_bytes) noexcept {
  const auto done = [&] { return pages_.empty() || pages_.back().offset_bytes < offset_bytes; };
  if (done())
    return CUDA_SUCCESS;
  RelaxedCapture relaxed(*api_);
  const bool pushed = api_->CtxPushCurrent(context_) == CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  while (!done()) {
    const Page &last = pages_.back();
    result = api_->MemUnmap(address_ + last.offset_bytes, last.size_bytes);
    if (result != CUDA_SUCCESS)
      break;
    (void)api_->MemRelease(last.handle);
    committed_bytes_ = last.offset_bytes;
    pages_.pop_back();
  }
  CUcontext popped;
  if (pushed)
    (void)api_->CtxPopCurrent(&popped);
  return result;
}

void VirtualRange::release() noexcept {
  if (!address_)
    return;
  (void)unmap();
  RelaxedCapture relaxed(*api_);
  bool pushed = api_->CtxPushCurrent(context_) == CUDA_SUCCESS;
  (void)api_->MemAddressFree(address_, size_bytes_);
  CUcontext popped;
  if (pushed)
    (void)api_->CtxPopCurrent(&popped);
  address_ = 0;
}

Status VirtualRange::commit(uint64_t size_bytes) {
  if (size_bytes <= committed_bytes_)
    return {};
  if (size_bytes > size_bytes_)
    return Status::error(Code::out_of_range, "cannot commit " + bytes_text(size_bytes) +
                                                 ": the reservation has " +
                                                 bytes_text(size_bytes_));
  CUGRT_ASSIGN(ContextGuard guard, ContextGuard::enter(*api_, context_));
  // The reservation is a multiple of the granularity, so rounding stays inside it.
  uint64_t end = *round_up(size_bytes, granularity_bytes_);
  Page page{0, committed_bytes_, end - committed_bytes_};
  pages_.reserve(pages_.size() + 1); // so that nothing throws once the driver holds memory
  CUmemAllocationProp prop = pinned_on(device_);
  if (CUresult result = api_->MemCreate(&page.handle, page.size_bytes, &prop, 0);
      result != CUDA_SUCCESS)
    return allocation_error(*api_, result, "cuMemCreate", page.size_bytes);
  CUdeviceptr at = address_ + page.offset_bytes;
  const char *call = "cuMemMap";
  CUresult result = api_->MemMap(at, page.size_bytes, 0, page.handle, 0);
  if (result == CUDA_SUCCESS) {
    CUmemAccessDesc access{};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    call = "cuMemSetAccess";
    result = api_->MemSetAccess(at, page.size_bytes, &access, 1);
    if (result != CUDA_SUCCESS)
      (void)api_->MemUnmap(at, page.size_bytes);
  }
  if (result != CUDA_SUCCESS) {
    (void)api_->MemRelease(page.handle);
    return driver_error(*api_, result, call, bytes_text(page.size_bytes));
  }
  pages_.push_back(page);
  committed_bytes_ = end;
  return {};
}

Status copy_async(StreamRef stream, uint64_t destination, uint64_t source, uint64_t size_bytes) {
  if (size_bytes == 0)
    return {};
  CUGRT_DRIVER(stream.api(), MemcpyDtoDAsync, (destination, source, size_bytes, stream.get()),
               bytes_text(size_bytes));
  return {};
}

Status fill_async(StreamRef stream, uint64_t destination, uint32_t value, uint32_t element_bytes,
                  uint64_t count) {
  if (count == 0)
    return {};
  const DriverApi &api = stream.api();
  switch (element_bytes) {
  case 1:
    CUGRT_DRIVER(api, MemsetD8Async,
                 (destination, static_cast<unsigned char>(value), count, stream.get()), "");
    return {};
  case 2:
    CUGRT_DRIVER(api, MemsetD16Async,
                 (destination, static_cast<unsigned short>(value), count, stream.get()), "");
    return {};
  case 4:
    CUGRT_DRIVER(api, MemsetD32Async, (destination, value, count, stream.get()), "");
    return {};
  }
  return Status::error(Code::invalid_argument, "cannot fill with elements of " +
                                                   bytes_text(element_bytes) +
                                                   ": 1, 2 or 4 are possible");
}

/// Waits for the context's copies. If the wait fails, a copy may still run and its memory must not
/// be freed, so this waits once more.
static Status wait_for_copies(const Context &context) {
  const StreamRef stream(&context.api(), context.copy_stream());
  Status status = stream.synchronize();
  if (!status.ok())
    (void)stream.synchronize();
  return status;
}

Status copy_to_device(const Context &context, uint64_t destination, const void *source,
                      uint64_t size_bytes) {
  if (size_bytes == 0)
    return {};
  CUGRT_ASSIGN(ContextGuard guard, context.enter());
  CUGRT_DRIVER(context.api(), MemcpyHtoDAsync,
               (destination, source, size_bytes, context.copy_stream()), bytes_text(size_bytes));
  return wait_for_copies(context);
}

Status copy_to_host(const Context &context, void *destination, uint64_t source,
                    uint64_t size_bytes) {
  if (size_bytes == 0)
    return {};
  CUGRT_ASSIGN(ContextGuard guard, context.enter());
  CUGRT_DRIVER(context.api(), MemcpyDtoHAsync,
               (destination, source, size_bytes, context.copy_stream()), bytes_text(size_bytes));
  return wait_for_copies(context);
}

} // namespace cugrt::driver
