// The emulated driver, but that no stream waits for an event of another: what tests of order must
// find.
#include <cuda.h>
#include <dlfcn.h>

#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

template <class Function> Function emulated(const char *name) {
  static void *const library = dlopen(CUGRT_TEST_EMULATOR, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function>(dlsym(library, name));
}

CUresult CUDAAPI forget(CUstream, CUevent, unsigned int) { return CUDA_SUCCESS; }

} // namespace

extern "C" {
__attribute__((visibility("default"))) char cuEmuGetStatistics = 0; // who has it is emulated
}

EXPORT CUresult CUDAAPI cuInit(unsigned int flags) {
  return emulated<decltype(&cuInit)>("cuInit")(flags);
}

EXPORT CUresult CUDAAPI cuDriverGetVersion(int *version) {
  return emulated<decltype(&cuDriverGetVersion)>("cuDriverGetVersion")(version);
}

#undef cuGetProcAddress
EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *name, void **pointer, int version,
                                            cuuint64_t flags,
                                            CUdriverProcAddressQueryResult *found) {
  const CUresult result = emulated<decltype(&cuGetProcAddress_v2)>("cuGetProcAddress_v2")(
      name, pointer, version, flags, found);
  if (result == CUDA_SUCCESS && std::strcmp(name, "cuStreamWaitEvent") == 0)
    *pointer = reinterpret_cast<void *>(&forget);
  return result;
}
