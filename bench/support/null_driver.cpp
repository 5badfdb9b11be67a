// The do-nothing driver, see null_driver.h. Entry points not written here do nothing but be
// counted.
#include "bench/support/null_driver.h"

#include "device/driver/driver_api.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#define NULL_DRIVER_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kVersion = 12030, kCapabilityMajor = 9;
constexpr uint64_t kMemoryBytes = uint64_t(64) << 30, kFirstAddress = uint64_t(1) << 40;
constexpr uint64_t kAlignment = 512;

cugrt_null_driver_calls g_calls;
bool g_mark_launches;
std::atomic<uint64_t> g_next_handle = 0x1000, g_next_address = kFirstAddress;
// Without a call to find it.
[[gnu::tls_model("initial-exec")]] thread_local CUcontext g_current;

template <class Handle> Handle new_handle() {
  return reinterpret_cast<Handle>(g_next_handle.fetch_add(16));
}
const CUcontext g_primary = reinterpret_cast<CUcontext>(uintptr_t(0x100));

/// What an entry point does; the general template: nothing.
template <class Tag> struct Does {
  template <class... Args> static CUresult call(Args...) { return CUDA_SUCCESS; }
};

#define NULL_DRIVER_TAG(field, entry, version, need) struct field##Tag;
#define CUGRT_DRIVER_CALL NULL_DRIVER_TAG
#include "device/driver/driver_api.def"
#undef CUGRT_DRIVER_CALL

/// The first parameter receives VALUE.
#define NULL_DRIVER_GIVES(field, value)                                                            \
  template <> struct Does<field##Tag> {                                                            \
    template <class Out, class... Args> static CUresult call(Out *out, Args...) {                  \
      *out = (value);                                                                              \
      return CUDA_SUCCESS;                                                                         \
    }                                                                                              \
  };
#define NULL_DRIVER_MAKES(field) NULL_DRIVER_GIVES(field, new_handle<Out>())

NULL_DRIVER_GIVES(DriverGetVersion, kVersion)
NULL_DRIVER_GIVES(DeviceGet, 0)
NULL_DRIVER_GIVES(DeviceGetCount, 1)
NULL_DRIVER_GIVES(DeviceTotalMem, kMemoryBytes)
NULL_DRIVER_GIVES(DevicePrimaryCtxRetain, g_primary)
NULL_DRIVER_GIVES(CtxGetCurrent, g_current)
NULL_DRIVER_GIVES(CtxGetDevice, 0)
NULL_DRIVER_GIVES(FuncGetAttribute, 0)
NULL_DRIVER_GIVES(EventElapsedTime, 0.0f)
NULL_DRIVER_GIVES(MemGetAllocationGranularity, kAlignment)
NULL_DRIVER_MAKES(ModuleLoadDataEx)
NULL_DRIVER_MAKES(ModuleGetFunction)
NULL_DRIVER_MAKES(MemPoolCreate)
NULL_DRIVER_MAKES(StreamCreate)
NULL_DRIVER_MAKES(StreamCreateWithPriority)
NULL_DRIVER_MAKES(EventCreate)
NULL_DRIVER_MAKES(GraphCreate)
NULL_DRIVER_MAKES(GraphAddKernelNode)
NULL_DRIVER_MAKES(GraphAddMemcpyNode)
NULL_DRIVER_MAKES(GraphAddMemsetNode)
NULL_DRIVER_MAKES(GraphAddEmptyNode)
NULL_DRIVER_MAKES(GraphAddNode_v2)

#define NULL_DRIVER_DOES(field, params, ...)                                                       \
  template <> struct Does<field##Tag> {                                                            \
    static CUresult call params {                                                                  \
      __VA_ARGS__;                                                                                 \
      return CUDA_SUCCESS;                                                                         \
    }                                                                                              \
  };

CUresult take_address(CUdeviceptr *address, size_t bytes) {
  *address = g_next_address.fetch_add((bytes + kAlignment - 1) / kAlignment * kAlignment);
  return CUDA_SUCCESS;
}

NULL_DRIVER_DOES(DeviceGetName, (char *name, int bytes, CUdevice),
                 std::strncpy(name, "do-nothing device", static_cast<size_t>(bytes)))
NULL_DRIVER_DOES(DeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice),
                 *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
                              ? kCapabilityMajor
                              : 0)
NULL_DRIVER_DOES(GetErrorName, (CUresult, const char **text), *text = "CUDA_SUCCESS")
NULL_DRIVER_DOES(GetErrorString, (CUresult, const char **text), *text = "no error")
NULL_DRIVER_DOES(CtxPushCurrent, (CUcontext context), g_current = context)
NULL_DRIVER_DOES(CtxSetCurrent, (CUcontext context), g_current = context)
NULL_DRIVER_DOES(CtxPopCurrent, (CUcontext * context), *context = std::exchange(g_current, nullptr))
NULL_DRIVER_DOES(MemGetInfo, (size_t * free_bytes, size_t *total_bytes),
                 *free_bytes = *total_bytes = kMemoryBytes)
NULL_DRIVER_DOES(MemAlloc, (CUdeviceptr * address, size_t bytes),
                 return take_address(address, bytes))
NULL_DRIVER_DOES(MemAllocFromPoolAsync,
                 (CUdeviceptr * address, size_t bytes, CUmemoryPool, CUstream),
                 return take_address(address, bytes))
NULL_DRIVER_DOES(MemHostAlloc, (void **data, size_t bytes, unsigned),
                 *data = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment))
NULL_DRIVER_DOES(MemFreeHost, (void *data), std::free(data))
NULL_DRIVER_DOES(ModuleGetGlobal, (CUdeviceptr * address, size_t *bytes, CUmodule, const char *),
                 *bytes = kAlignment;
                 return take_address(address, kAlignment))
NULL_DRIVER_DOES(StreamIsCapturing, (CUstream, CUstreamCaptureStatus *status),
                 *status = CU_STREAM_CAPTURE_STATUS_NONE)
NULL_DRIVER_DOES(StreamGetCtx, (CUstream, CUcontext *context), *context = g_primary)
NULL_DRIVER_DOES(GraphInstantiateWithParams,
                 (CUgraphExec * exec, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
                 *exec = new_handle<CUgraphExec>();
                 params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS)
NULL_DRIVER_DOES(GraphLaunch, (CUgraphExec, CUstream), ++g_calls.launches;
                 if (g_mark_launches) cugrt_null_driver_launched())
NULL_DRIVER_DOES(GraphExecKernelNodeSetParams,
                 (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v2 *), ++g_calls.setters)

struct Row {
  const char *entry;
  int version;
  void *pointer;
};

template <class Tag, class Function> struct Entry;
template <class Tag, class... Args> struct Entry<Tag, CUresult (*)(Args...)> {
  static CUresult call(Args... args) {
    ++g_calls.all;
    return Does<Tag>::call(args...);
  }
};

CUresult begin_capture(CUstream, CUstreamCaptureMode) {
  ++g_calls.all;
  return CUDA_SUCCESS;
}

CUresult end_capture(CUstream, CUgraph *graph) {
  ++g_calls.all;
  *graph = new_handle<CUgraph>();
  return CUDA_SUCCESS;
}

const Row kRows[] = {
    // Not in the product's table: benches capture for comparison.
    {"cuStreamBeginCapture", 10010, reinterpret_cast<void *>(&begin_capture)},
    {"cuStreamEndCapture", 10000, reinterpret_cast<void *>(&end_capture)},
#define CUGRT_DRIVER_CALL(field, entry, version, need)                                             \
  {"cu" #entry, version,                                                                           \
   reinterpret_cast<void *>(&Entry<field##Tag, PFN_cu##entry##_v##version>::call)},
#include "device/driver/driver_api.def"
#undef CUGRT_DRIVER_CALL
};

} // namespace

NULL_DRIVER_EXPORT CUresult cuInit(unsigned) { return CUDA_SUCCESS; }

NULL_DRIVER_EXPORT CUresult cuDriverGetVersion(int *version) {
  *version = kVersion;
  return CUDA_SUCCESS;
}

#undef cuGetProcAddress
NULL_DRIVER_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pointer, int version,
                                                cuuint64_t, CUdriverProcAddressQueryResult *found) {
  *pointer = nullptr;
  for (const Row &row : kRows)
    if (std::strcmp(row.entry, symbol) == 0 && row.version == version)
      *pointer = row.pointer;
  if (found)
    *found = *pointer ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *pointer ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

NULL_DRIVER_EXPORT cugrt_null_driver_calls cugrt_null_driver_count() { return g_calls; }
NULL_DRIVER_EXPORT void cugrt_null_driver_mark_launches(bool on) { g_mark_launches = on; }
NULL_DRIVER_EXPORT __attribute__((noinline)) void cugrt_null_driver_launched() {
  asm volatile(""); // a call to it must stay
}
