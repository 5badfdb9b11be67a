// The fake driver's devices, contexts, memory, code, streams and events.
#include "support/fake_state.h"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace cugrt::test {

namespace {

thread_local std::vector<CUcontext> context_stack;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

constexpr int kMaxSharedOptIn = 227 << 10;

template <class Map, class Key> CUresult erase_handle(Map &map, Key key) {
  return map.erase(key) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

} // namespace

FakeState::FakeState(const FakeDriver::Options &o) : options(o) {
  for (int i = 0; i < options.devices; ++i)
    primary.push_back({i, 0});
  context_stack.clear();
}

FakeState::~FakeState() {
  for (auto &[address, bytes] : allocations)
    std::free(reinterpret_cast<void *>(address));
  for (auto &[address, bytes] : host_allocations)
    std::free(reinterpret_cast<void *>(address));
  for (auto &[address, bytes] : reservations)
    munmap(reinterpret_cast<void *>(address), bytes);
}

bool FakeState::valid_context(CUcontext context) const {
  for (const FakeContext &c : primary)
    if (reinterpret_cast<const FakeContext *>(context) == &c)
      return c.references > 0;
  return false;
}

bool FakeState::has_current() const {
  return !context_stack.empty() && valid_context(context_stack.back());
}

bool FakeState::valid_stream(CUstream stream) const {
  return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
         streams.count(stream);
}

CUresult FakeState::Init(unsigned) {
  initialised = true;
  return options.devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult FakeState::DriverGetVersion(int *version) {
  *version = options.version;
  return CUDA_SUCCESS;
}

CUresult FakeState::GetErrorName(CUresult error, const char **text) {
  switch (error) {
  case CUDA_ERROR_INVALID_VALUE:
    *text = "CUDA_ERROR_INVALID_VALUE";
    break;
  case CUDA_ERROR_OUT_OF_MEMORY:
    *text = "CUDA_ERROR_OUT_OF_MEMORY";
    break;
  case CUDA_ERROR_NOT_FOUND:
    *text = "CUDA_ERROR_NOT_FOUND";
    break;
  case CUDA_ERROR_INVALID_HANDLE:
    *text = "CUDA_ERROR_INVALID_HANDLE";
    break;
  case CUDA_ERROR_ILLEGAL_ADDRESS:
    *text = "CUDA_ERROR_ILLEGAL_ADDRESS";
    break;
  case CUDA_ERROR_LAUNCH_FAILED:
    *text = "CUDA_ERROR_LAUNCH_FAILED";
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult FakeState::GetErrorString(CUresult error, const char **text) {
  switch (error) {
  case CUDA_ERROR_INVALID_VALUE:
    *text = "invalid argument";
    break;
  case CUDA_ERROR_OUT_OF_MEMORY:
    *text = "out of memory";
    break;
  case CUDA_ERROR_ILLEGAL_ADDRESS:
    *text = "an illegal memory access was encountered";
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult FakeState::DeviceGet(CUdevice *device, int ordinal) {
  if (ordinal < 0 || ordinal >= options.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult FakeState::DeviceGetCount(int *count) {
  *count = options.devices;
  return CUDA_SUCCESS;
}

CUresult FakeState::DeviceGetName(char *name, int bytes, CUdevice) {
  std::strncpy(name, "fake device", static_cast<size_t>(bytes));
  return CUDA_SUCCESS;
}

CUresult FakeState::DeviceGetUuid(CUuuid *uuid, CUdevice device) {
  std::memset(uuid, 0, sizeof *uuid);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

CUresult FakeState::DeviceTotalMem(size_t *bytes, CUdevice) {
  *bytes = options.device_bytes;
  return CUDA_SUCCESS;
}

CUresult FakeState::DeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  if (device < 0 || device >= options.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *value = options.capability / 10;
    break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    *value = options.capability % 10;
    break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    *value = 4;
    break;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = 1024;
    break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    *value = kMaxSharedOptIn;
    break;
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    *value = 1;
    break;
  case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    *value = 1;
    break;
  default:
    *value = 0;
    break;
  }
  return CUDA_SUCCESS;
}

CUresult FakeState::DevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  if (device < 0 || device >= options.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  FakeContext &c = primary[static_cast<size_t>(device)];
  ++c.references;
  *context = handle_of(&c);
  return CUDA_SUCCESS;
}

CUresult FakeState::DevicePrimaryCtxRelease(CUdevice device) {
  FakeContext &c = primary.at(static_cast<size_t>(device));
  if (c.references == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  --c.references;
  return CUDA_SUCCESS;
}

CUresult FakeState::CtxPushCurrent(CUcontext context) {
  if (!valid_context(context))
    return CUDA_ERROR_INVALID_CONTEXT;
  context_stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult FakeState::CtxPopCurrent(CUcontext *context) {
  if (context_stack.empty())
    return CUDA_ERROR_INVALID_CONTEXT;
  *context = context_stack.back();
  context_stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult FakeState::CtxGetCurrent(CUcontext *context) {
  *context = context_stack.empty() ? nullptr : context_stack.back();
  return CUDA_SUCCESS;
}

CUresult FakeState::CtxSetCurrent(CUcontext context) {
  if (!context_stack.empty())
    context_stack.pop_back();
  return context ? CtxPushCurrent(context) : CUDA_SUCCESS;
}

CUresult FakeState::CtxGetDevice(CUdevice *device) {
  if (!has_current())
    return CUDA_ERROR_INVALID_CONTEXT;
  *device = reinterpret_cast<FakeContext *>(context_stack.back())->device;
  return CUDA_SUCCESS;
}

CUresult FakeState::ModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                                     CUjit_option *keys, void **values) {
  if (!has_current())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (std::strncmp(static_cast<const char *>(image), "bad", 3) == 0) {
    for (unsigned i = 0; i < count; ++i)
      if (keys[i] == CU_JIT_ERROR_LOG_BUFFER)
        std::strcpy(static_cast<char *>(values[i]), "line 1: bad image");
    return CUDA_ERROR_INVALID_IMAGE;
  }
  auto made = std::make_unique<FakeModule>();
  for (auto &[name, kernel] : kernels) {
    auto function = std::make_unique<FakeFunction>();
    function->kernel = &kernel;
    function->module = made.get();
    made->functions[name] = std::move(function);
  }
  for (auto &[name, bytes] : globals) {
    CUdeviceptr address = 0;
    if (CUresult result = MemAlloc(&address, bytes); result != CUDA_SUCCESS)
      return result;
    made->globals[name] = address;
  }
  *module = reinterpret_cast<CUmodule>(made.get());
  modules[*module] = std::move(made);
  return CUDA_SUCCESS;
}

CUresult FakeState::ModuleUnload(CUmodule module) {
  auto found = modules.find(module);
  if (found == modules.end())
    return CUDA_ERROR_INVALID_HANDLE;
  for (auto &[name, address] : found->second->globals)
    (void)MemFree(address);
  modules.erase(found);
  return CUDA_SUCCESS;
}

CUresult FakeState::ModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  auto found = modules.find(module);
  if (found == modules.end())
    return CUDA_ERROR_INVALID_HANDLE;
  auto kernel = found->second->functions.find(name);
  if (kernel == found->second->functions.end())
    return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(kernel->second.get());
  return CUDA_SUCCESS;
}

CUresult FakeState::ModuleGetGlobal(CUdeviceptr *address, size_t *bytes, CUmodule module,
                                    const char *name) {
  auto found = modules.find(module);
  if (found == modules.end())
    return CUDA_ERROR_INVALID_HANDLE;
  auto global = found->second->globals.find(name);
  if (global == found->second->globals.end())
    return CUDA_ERROR_NOT_FOUND;
  *address = global->second;
  *bytes = globals[name];
  return CUDA_SUCCESS;
}

FakeFunction *FakeState::find_function(CUfunction function) const {
  for (auto &[handle, module] : modules)
    for (auto &[name, candidate] : module->functions)
      if (reinterpret_cast<CUfunction>(candidate.get()) == function)
        return candidate.get();
  return nullptr;
}

CUresult FakeState::FuncGetAttribute(int *value, CUfunction_attribute attribute,
                                     CUfunction function) {
  FakeFunction *f = find_function(function);
  if (!f)
    return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *value = f->max_dynamic_shared;
    break;
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = 1024;
    break;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    *value = f->kernel->static_shared;
    break;
  default:
    *value = 0;
    break;
  }
  return CUDA_SUCCESS;
}

CUresult FakeState::FuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                     int value) {
  FakeFunction *f = find_function(function);
  if (!f)
    return CUDA_ERROR_INVALID_HANDLE;
  if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
    f->large_clusters = value != 0;
    return CUDA_SUCCESS;
  }
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
      value > kMaxSharedOptIn - f->kernel->static_shared)
    return CUDA_ERROR_INVALID_VALUE;
  f->max_dynamic_shared = value;
  return CUDA_SUCCESS;
}

CUresult FakeState::FuncGetParamInfo(CUfunction function, size_t index, size_t *offset,
                                     size_t *bytes) {
  FakeFunction *f = find_function(function);
  if (!f)
    return CUDA_ERROR_INVALID_HANDLE;
  if (index >= f->kernel->param_bytes.size())
    return CUDA_ERROR_INVALID_VALUE;
  // Parameters are naturally aligned, up to eight bytes.
  size_t at = 0;
  for (size_t i = 0; i <= index; ++i) {
    size_t size = f->kernel->param_bytes[i], alignment = size >= 8 ? 8 : size ? size : 1;
    at = (at + alignment - 1) / alignment * alignment;
    *offset = at;
    at += size;
  }
  *bytes = f->kernel->param_bytes[index];
  return CUDA_SUCCESS;
}

CUresult FakeState::make_launch(FakeFunction *function, const std::array<uint32_t, 3> &grid,
                                const std::array<uint32_t, 3> &block, uint32_t shared,
                                void **arguments, FakeLaunch &launch) const {
  if (!function)
    return CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < 3; ++i)
    if (grid[static_cast<size_t>(i)] == 0 || block[static_cast<size_t>(i)] == 0)
      return CUDA_ERROR_INVALID_VALUE;
  if (uint64_t(block[0]) * block[1] * block[2] > 1024 ||
      shared > static_cast<uint32_t>(function->max_dynamic_shared))
    return CUDA_ERROR_INVALID_VALUE;
  launch = {function->kernel->name, grid, block, shared, {}, false};
  if (!options.execute)
    return CUDA_SUCCESS; // nobody looks at the arguments
  for (size_t i = 0; i < function->kernel->param_bytes.size(); ++i) {
    auto from = static_cast<const std::byte *>(arguments[i]);
    launch.arguments.emplace_back(from, from + function->kernel->param_bytes[i]);
  }
  return CUDA_SUCCESS;
}

void FakeState::run_kernel(const FakeFunction *function, FakeLaunch launch) {
  if (!options.execute)
    return;
  if (function->kernel->body)
    function->kernel->body(launch);
  if (options.record)
    launches.push_back(std::move(launch));
}

CUresult FakeState::LaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                   void **arguments, void **) {
  if (!has_current())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!valid_stream(config->hStream))
    return CUDA_ERROR_INVALID_HANDLE;
  FakeFunction *f = find_function(function);
  FakeLaunch launch;
  CUresult result = make_launch(f, {config->gridDimX, config->gridDimY, config->gridDimZ},
                                {config->blockDimX, config->blockDimY, config->blockDimZ},
                                config->sharedMemBytes, arguments, launch);
  land(config->hStream);
  if (result == CUDA_SUCCESS)
    run_kernel(f, std::move(launch));
  return result;
}

CUresult FakeState::StreamCreate(CUstream *stream, unsigned flags) {
  return StreamCreateWithPriority(stream, flags, 0);
}

CUresult FakeState::StreamCreateWithPriority(CUstream *stream, unsigned, int priority) {
  if (!has_current())
    return CUDA_ERROR_INVALID_CONTEXT;
  auto made = std::make_unique<FakeStream>();
  made->context = context_stack.back();
  made->priority = priority;
  *stream = reinterpret_cast<CUstream>(made.get());
  streams[*stream] = std::move(made);
  return CUDA_SUCCESS;
}

CUresult FakeState::StreamDestroy(CUstream stream) {
  land(stream);
  return erase_handle(streams, stream);
}

/// Of a call that may be made on any stream but one that is being captured: nothing here captures,
/// so that a call which a driver would capture, or would end the capture for, is a mistake.
CUresult FakeState::check_stream(CUstream stream) const {
  if (!valid_stream(stream))
    return CUDA_ERROR_INVALID_HANDLE;
  return capturing.count(stream) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult FakeState::StreamSynchronize(CUstream stream) {
  land(stream);
  return check_stream(stream);
}

CUresult FakeState::ThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}

/// Calls that a capture in global mode forbids other threads.
bool FakeState::refused_by_capture(std::string_view entry) const {
  static const std::set<std::string_view> kUnsafe = {"cuMemAlloc",
                                                     "cuMemFree",
                                                     "cuMemHostAlloc",
                                                     "cuMemFreeHost",
                                                     "cuMemCreate",
                                                     "cuMemRelease",
                                                     "cuMemMap",
                                                     "cuMemUnmap",
                                                     "cuMemSetAccess",
                                                     "cuMemAddressFree",
                                                     "cuModuleUnload",
                                                     "cuModuleLoadDataEx",
                                                     "cuEventQuery",
                                                     "cuStreamQuery",
                                                     "cuCtxSynchronize",
                                                     "cuEventSynchronize",
                                                     "cuMemAddressReserve",
                                                     "cuGraphUpload",
                                                     "cuGraphExecDestroy",
                                                     "cuMemAllocFromPoolAsync",
                                                     "cuGraphInstantiateWithParams"};
  return captured_elsewhere && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
         kUnsafe.count(entry);
}

CUresult FakeState::StreamQuery(CUstream stream) {
  if (CUresult result = check_stream(stream); result != CUDA_SUCCESS)
    return result;
  return held ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult FakeState::StreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  return events.count(event) ? check_stream(stream) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult FakeState::StreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  if (!valid_stream(stream))
    return CUDA_ERROR_INVALID_HANDLE;
  *status =
      capturing.count(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult FakeState::StreamGetCtx(CUstream stream, CUcontext *context) {
  auto found = streams.find(stream);
  if (found == streams.end() && stream)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!stream && !has_current())
    return CUDA_ERROR_INVALID_CONTEXT;
  *context = stream ? found->second->context : context_stack.back();
  return CUDA_SUCCESS;
}

CUresult FakeState::EventCreate(CUevent *event, unsigned flags) {
  if (!has_current())
    return CUDA_ERROR_INVALID_CONTEXT;
  auto made = std::make_unique<FakeEvent>();
  made->timing = !(flags & CU_EVENT_DISABLE_TIMING);
  *event = reinterpret_cast<CUevent>(made.get());
  events[*event] = std::move(made);
  return CUDA_SUCCESS;
}

CUresult FakeState::EventDestroy(CUevent event) { return erase_handle(events, event); }

CUresult FakeState::EventRecord(CUevent event, CUstream stream) {
  auto found = events.find(event);
  if (found == events.end())
    return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult result = check_stream(stream); result != CUDA_SUCCESS)
    return result;
  found->second->recorded = true;
  return CUDA_SUCCESS;
}

CUresult FakeState::EventQuery(CUevent event) {
  auto found = events.find(event);
  if (found == events.end())
    return CUDA_ERROR_INVALID_HANDLE;
  return held && found->second->recorded ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult FakeState::EventSynchronize(CUevent event) {
  return events.count(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult FakeState::EventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  auto a = events.find(start), b = events.find(end);
  if (a == events.end() || b == events.end() || !a->second->timing || !b->second->timing ||
      !a->second->recorded || !b->second->recorded)
    return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = 0;
  return CUDA_SUCCESS;
}

} // namespace cugrt::test
