// A CUDA driver as any program sees it: a library that is opened by name, and its exported symbols.
//
// Nothing here knows whether the driver is the emulated one or drives a device. The table holds the
// functions under the names that CUDA's header maps them to (cuMemAlloc is cuMemAlloc_v2 there), so
// that a call reads as in any program: api.cuMemAlloc(&address, bytes). What a driver does not
// export is null, and so is what came with a later driver than this one; cases that need it are
// left out and counted.
#pragma once

#include "emulator/driver/cuda_newer.h"

#include <string>

namespace cugrt::conformance {

struct Api {
// Deprecated functions are called too.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define CONFORMANCE_CALL(function) decltype(&::function) function = nullptr;
#define CONFORMANCE_CALL_SINCE(function, version) CONFORMANCE_CALL(function)
#include "driver_calls.def"
#undef CONFORMANCE_CALL
#undef CONFORMANCE_CALL_SINCE
#pragma GCC diagnostic pop
};

struct Driver {
  Api api;
  void *library = nullptr;
  std::string path;
  bool emulated = false; // exports cuEmuGetStatistics, which no real driver does
  int version = 0;
  CUdevice device = 0;
  std::string device_name;
  int compute = 0; // 90 for compute capability 9.0

  std::string name_of(CUresult result) const;
};

/// Opens "emulated" (CUGRT_EMULATOR, else the library of this build), "system" (libcuda.so.1) or a
/// path, initialises it and takes its first device. False, with the reason, when that fails.
bool open_driver(const std::string &name, Driver &driver, std::string &reason);

} // namespace cugrt::conformance
