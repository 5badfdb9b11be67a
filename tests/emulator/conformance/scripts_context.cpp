// Initialisation, devices, names of errors, contexts and the thread's stack of them.
#include "script.h"

#include <cstring>

namespace cugrt::conformance {

const std::vector<ScriptCase> &context_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"cuInit takes no flags",
       {{"cuInit", "Flags parameter must be 0"}},
       [](Script &s) {
         s.expect("flags 0, again", s.api.cuInit(0));
         s.expect("flags 1", s.api.cuInit(1), CUDA_ERROR_INVALID_VALUE);
       }},
      {"the driver's version",
       {{"cuDriverGetVersion", "(1000 * major + 10 * minor)"},
        {"cuDriverGetVersion", "CUDA_ERROR_INVALID_VALUE if driverVersion is NULL"}},
       [](Script &s) {
         int version = 0;
         s.expect("version", s.api.cuDriverGetVersion(&version));
         s.expect_true("12.0 or newer, a whole multiple of ten",
                       version >= 12000 && version % 10 == 0);
         s.expect("null", s.api.cuDriverGetVersion(nullptr), CUDA_ERROR_INVALID_VALUE);
       }},
      {"names of errors",
       {{"cuGetErrorName", "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE"},
        {"cuGetErrorName", "set to the NULL address"},
        {"cuGetErrorString", "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE"}},
       [](Script &s) {
         const char *text = nullptr;
         s.expect("known", s.api.cuGetErrorName(CUDA_ERROR_NOT_READY, &text));
         s.expect_true("its name", text && !std::strcmp(text, "CUDA_ERROR_NOT_READY"));
         s.expect("unknown", s.api.cuGetErrorName(CUresult(1000), &text), CUDA_ERROR_INVALID_VALUE);
         s.expect_true("null name", !text);
         s.expect("description", s.api.cuGetErrorString(CUDA_ERROR_NOT_READY, &text));
         s.expect_true("some text", text && *text);
         s.expect("unknown description", s.api.cuGetErrorString(CUresult(1000), &text),
                  CUDA_ERROR_INVALID_VALUE);
         s.expect_true("null description", !text);
       }},
      {"devices by ordinal",
       {{"cuDeviceGet", "an ordinal in the range"},
        {"cuDeviceGetCount", "Returns in *count the number"}},
       [](Script &s) {
         int count = 0;
         CUdevice device = -1;
         s.expect("count", s.api.cuDeviceGetCount(&count));
         s.expect_true("one or more", count > 0);
         s.expect("the last", s.api.cuDeviceGet(&device, count - 1));
         s.expect("one too many", s.api.cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE);
         s.expect("negative", s.api.cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
       }},
      {"attaching to a context keeps it",
       {{"cuCtxAttach", "Increments the usage count of the context"},
        {"cuCtxAttach", "the flags parameter must be 0"},
        {"cuCtxDetach", "destroys the context if the usage count goes to 0"},
        {"cuCtxDetach", "must be current to the calling thread"}},
       [](Script &s) {
         CUcontext made = nullptr, attached = nullptr, current = nullptr;
         CUdevice device = 0;
         s.need(s.api.cuCtxCreate(&made, nullptr, 0, 0));
         s.expect("flags", s.api.cuCtxAttach(&attached, 1), CUDA_ERROR_INVALID_VALUE);
         s.expect("attach", s.api.cuCtxAttach(&attached, 0));
         s.expect_true("the current one", attached == made);
         s.expect("not the current one", s.api.cuCtxDetach(s.context), CUDA_ERROR_INVALID_CONTEXT);
         s.expect("detach", s.api.cuCtxDetach(made));
         s.expect("it is there", s.api.cuCtxGetDevice(&device));
         s.need(s.api.cuCtxGetCurrent(&current));
         s.expect_true("and current", current == made);
         s.expect("detach for the last time", s.api.cuCtxDetach(made));
         s.need(s.api.cuCtxGetCurrent(&current));
         s.expect_true("no longer current", current != made);
       },
       12050},
      {"a device's name is cut to the space given",
       {{"cuDeviceGetName", "is shortened to the specified len"}},
       [](Script &s) {
         char name[8] = "xxxxxxx";
         s.expect("seven and a zero", s.api.cuDeviceGetName(name, 8, s.driver.device));
         s.expect("length", std::strlen(name), 7);
       }},
      {"attributes of a device",
       {{"CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK", "Maximum number of threads per block"},
        {"CU_DEVICE_ATTRIBUTE_WARP_SIZE", "Warp size in threads"}},
       [](Script &s) {
         int value = 0;
         s.expect("warp", s.api.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE,
                                                     s.driver.device));
         s.expect("warp size", uint64_t(value), 32);
         s.expect("threads",
                  s.api.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                             s.driver.device));
         s.expect("threads of a block", uint64_t(value), 1024);
         s.observe("an attribute that is none",
                   s.api.cuDeviceGetAttribute(&value, CUdevice_attribute(250), s.driver.device),
                   CUDA_ERROR_INVALID_VALUE);
       }},
      {"the primary context counts who holds it",
       {{"cuDevicePrimaryCtxRelease", "automatically reset once the last reference"},
        {"cuDevicePrimaryCtxRelease",
         "not been previously retained will fail with CUDA_ERROR_INVALID_CONTEXT"},
        {"cuDevicePrimaryCtxRetain", "is not pushed onto the stack"}},
       [](Script &s) {
         unsigned flags = 0;
         int active = 0;
         CUcontext again = nullptr, current = nullptr;
         s.need(s.api.cuCtxSetCurrent(nullptr));
         s.expect("retain", s.api.cuDevicePrimaryCtxRetain(&again, s.driver.device));
         s.expect_true("the same", again == s.context);
         s.expect("current", s.api.cuCtxGetCurrent(&current));
         s.expect_true("not pushed", !current);
         s.expect("release one", s.api.cuDevicePrimaryCtxRelease(s.driver.device));
         s.expect("state", s.api.cuDevicePrimaryCtxGetState(s.driver.device, &flags, &active));
         s.expect("active while held", uint64_t(active), 1);
         s.need(s.api.cuCtxSetCurrent(s.context));
         s.need(s.api.cuModuleUnload(s.module));
         s.module = nullptr;
         s.need(s.api.cuCtxSetCurrent(nullptr));
         s.context = nullptr;
         s.expect("release the last", s.api.cuDevicePrimaryCtxRelease(s.driver.device));
         s.need(s.api.cuDevicePrimaryCtxGetState(s.driver.device, &flags, &active));
         s.expect("inactive", uint64_t(active), 0);
         s.expect("release once more", s.api.cuDevicePrimaryCtxRelease(s.driver.device),
                  CUDA_ERROR_INVALID_CONTEXT);
       }},
      {"contexts stand on the thread's stack",
       {{"cuCtxPushCurrent", "becomes the CPU thread's current context"},
        {"cuCtxPopCurrent", "passes back the old context handle"},
        {"cuCtxGetCurrent", "*pctx is set to NULL and CUDA_SUCCESS is returned"},
        {"cuCtxSetCurrent", "replace the top of that stack"}},
       [](Script &s) {
         CUcontext popped = nullptr, current = nullptr;
         s.expect("push", s.api.cuCtxPushCurrent(s.context));
         s.expect("pop", s.api.cuCtxPopCurrent(&popped));
         s.expect_true("what was pushed", popped == s.context);
         s.expect("current", s.api.cuCtxGetCurrent(&current));
         s.expect_true("the one below", current == s.context);
         s.expect("set null", s.api.cuCtxSetCurrent(nullptr));
         s.expect("none", s.api.cuCtxGetCurrent(&current));
         s.expect_true("null", !current);
         s.expect("set null again", s.api.cuCtxSetCurrent(nullptr));
         s.expect("pop of an empty stack", s.api.cuCtxPopCurrent(&popped),
                  CUDA_ERROR_INVALID_CONTEXT);
         s.need(s.api.cuCtxSetCurrent(s.context));
       }},
      {"calls that need a context and have none",
       {{"cuMemAlloc", "CUDA_ERROR_INVALID_CONTEXT"},
        {"cuCtxSynchronize", "CUDA_ERROR_INVALID_CONTEXT"},
        {"cuMemHostGetDevicePointer", "CUDA_ERROR_INVALID_CONTEXT"}},
       [](Script &s) {
         CUdeviceptr address = 0;
         CUstream stream = nullptr, made = s.stream(0);
         CUevent event = s.event();
         CUfunction function = nullptr;
         CUdevice device = 0;
         void *pinned = nullptr;
         unsigned int flags = 0;
         s.need(s.api.cuMemHostAlloc(&pinned, 64, CU_MEMHOSTALLOC_DEVICEMAP));
         s.need(s.api.cuCtxSetCurrent(nullptr));
         s.expect("cuMemAlloc", s.api.cuMemAlloc(&address, 16), CUDA_ERROR_INVALID_CONTEXT);
         s.expect("cuCtxSynchronize", s.api.cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
         s.expect("cuStreamCreate", s.api.cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
         s.expect("cuCtxGetDevice", s.api.cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
         s.expect("cuMemHostGetDevicePointer", s.api.cuMemHostGetDevicePointer(&address, pinned, 0),
                  CUDA_ERROR_INVALID_CONTEXT);
         s.observe("cuMemHostGetFlags", s.api.cuMemHostGetFlags(&flags, pinned),
                   CUDA_ERROR_INVALID_CONTEXT);
         s.observe("cuEventQuery", s.api.cuEventQuery(event), CUDA_SUCCESS);
         s.observe("cuEventRecord", s.api.cuEventRecord(event, made), CUDA_SUCCESS);
         s.observe("cuStreamSynchronize", s.api.cuStreamSynchronize(made), CUDA_SUCCESS);
         s.observe("cuModuleGetFunction",
                   s.api.cuModuleGetFunction(&function, s.module, "increment"), CUDA_SUCCESS);
         s.need(s.api.cuCtxSetCurrent(s.context));
         s.need(s.api.cuMemFreeHost(pinned));
       }},
      {"a created context is current, and destroyed gives back the one before",
       {{"cuCtxCreate", "associates it with the calling thread"},
        {"cuCtxDestroy", "will also be popped from the current thread's context stack"}},
       [](Script &s) {
         CUcontext made = nullptr, current = nullptr;
         s.expect("create", s.api.cuCtxCreate(&made, nullptr, 0, s.driver.device));
         s.need(s.api.cuCtxGetCurrent(&current));
         s.expect_true("current", current == made && made != s.context);
         s.expect("destroy", s.api.cuCtxDestroy(made));
         s.need(s.api.cuCtxGetCurrent(&current));
         s.expect_true("the one before", current == s.context);
       },
       12050},
      {"limits are requests that can be read back",
       {{"cuCtxSetLimit", "cuCtxGetLimit() to find out exactly what the limit has been set to"}},
       [](Script &s) {
         size_t value = 0;
         s.expect("set", s.api.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
         s.expect("get", s.api.cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
         s.expect_true("at least what was asked", value >= 4096);
         s.expect("no limit", s.api.cuCtxSetLimit(CUlimit(15), 1), CUDA_ERROR_INVALID_VALUE);
       }},
      {"stream priorities have a range, the greatest lowest",
       {{"cuCtxGetStreamPriorityRange", "lower numbers imply greater priorities"}},
       [](Script &s) {
         int least = -1, greatest = 1;
         s.expect("range", s.api.cuCtxGetStreamPriorityRange(&least, &greatest));
         s.expect_true("greatest <= least", greatest <= least);
         s.expect("least", uint64_t(least), 0);
         s.expect("null is ignored", s.api.cuCtxGetStreamPriorityRange(nullptr, &greatest));
       }},
      {"entry points by name and version",
       {{"cuGetProcAddress", "CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND"},
        {"cuGetProcAddress", "CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT"}},
       [](Script &s) {
         void *pointer = nullptr;
         CUdriverProcAddressQueryResult found{};
         s.expect("known", s.api.cuGetProcAddress("cuMemAlloc", &pointer, 3020, 0, &found));
         s.expect("found", uint64_t(found), CU_GET_PROC_ADDRESS_SUCCESS);
         s.expect_true("as exported", pointer == reinterpret_cast<void *>(s.api.cuMemAlloc));
         CUresult result = s.api.cuGetProcAddress("cuNoSuchCall", &pointer, 12000, 0, &found);
         s.expect("unknown", uint64_t(found), CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
         s.observe("its result", result, CUDA_SUCCESS);
         result = s.api.cuGetProcAddress("cuMemAllocAsync", &pointer, 3020, 0, &found);
         s.expect("older than the call", uint64_t(found),
                  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
         s.observe("its result", result, CUDA_SUCCESS);
       }},
  };
  return scripts;
}

} // namespace cugrt::conformance
