// Opening a driver and resolving its symbols.
#include "driver.h"

#include <cstdlib>
#include <dlfcn.h>

namespace cugrt::conformance {

namespace {

#define CONFORMANCE_TEXT(name) #name
#define CONFORMANCE_SYMBOL(name) CONFORMANCE_TEXT(name)

// Drivers export what came late under names of their own choice; by name and version they all have
// it. cuGetProcAddress is asked for exactly the ABI that the header declares.
void *find_since(const Driver &driver, const char *base, const char *symbol, int since) {
  if (driver.version < since)
    return nullptr;
  void *address = nullptr;
  CUdriverProcAddressQueryResult status{};
  if (driver.api.cuGetProcAddress &&
      driver.api.cuGetProcAddress(base, &address, since, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                                  &status) == CUDA_SUCCESS &&
      address)
    return address;
  return dlsym(driver.library, symbol);
}

void resolve_exported(Driver &driver) {
#define CONFORMANCE_CALL(function)                                                                 \
  driver.api.function = reinterpret_cast<decltype(driver.api.function)>(                           \
      dlsym(driver.library, CONFORMANCE_SYMBOL(function)));
#define CONFORMANCE_CALL_SINCE(function, version)
#include "driver_calls.def"
#undef CONFORMANCE_CALL
#undef CONFORMANCE_CALL_SINCE
}

void resolve_versioned(Driver &driver) {
#define CONFORMANCE_CALL(function)
#define CONFORMANCE_CALL_SINCE(function, version)                                                  \
  driver.api.function = reinterpret_cast<decltype(driver.api.function)>(                           \
      find_since(driver, #function, CONFORMANCE_SYMBOL(function), version));
#include "driver_calls.def"
#undef CONFORMANCE_CALL
#undef CONFORMANCE_CALL_SINCE
}

std::string file_of(const std::string &name) {
  if (name == "system")
    return "libcuda.so.1";
  if (name != "emulated")
    return name;
  const char *path = std::getenv("CUGRT_EMULATOR");
  return path && *path ? path : CUGRT_TEST_EMULATOR;
}

} // namespace

std::string Driver::name_of(CUresult result) const {
  const char *name = nullptr;
  if (api.cuGetErrorName && api.cuGetErrorName(result, &name) == CUDA_SUCCESS && name)
    return name;
  return "CUresult " + std::to_string(int(result));
}

bool open_driver(const std::string &name, Driver &driver, std::string &reason) {
  driver.path = file_of(name);
  driver.library = dlopen(driver.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!driver.library) {
    const char *text = dlerror();
    reason = "no driver: " + std::string(text ? text : driver.path);
    return false;
  }
  resolve_exported(driver);
  driver.emulated = dlsym(driver.library, "cuEmuGetStatistics") != nullptr;
  const Api &api = driver.api;
  if (!api.cuInit || !api.cuDriverGetVersion || !api.cuDeviceGet || !api.cuDeviceGetName ||
      !api.cuDeviceGetAttribute) {
    reason = driver.path + " is no CUDA driver";
    return false;
  }
  char device_name[256] = "";
  int major = 0, minor = 0;
  CUresult result = api.cuInit(0);
  if (result == CUDA_SUCCESS)
    result = api.cuDriverGetVersion(&driver.version);
  if (result == CUDA_SUCCESS)
    result = api.cuDeviceGet(&driver.device, 0);
  if (result == CUDA_SUCCESS)
    result = api.cuDeviceGetName(device_name, sizeof device_name, driver.device);
  if (result == CUDA_SUCCESS)
    result = api.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                      driver.device);
  if (result == CUDA_SUCCESS)
    result = api.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                      driver.device);
  if (result != CUDA_SUCCESS) {
    reason = driver.path + " does not start: " + driver.name_of(result);
    return false;
  }
  resolve_versioned(driver);
  driver.device_name = device_name;
  driver.compute = 10 * major + minor;
  return true;
}

} // namespace cugrt::conformance
