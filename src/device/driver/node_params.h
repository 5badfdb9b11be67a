// Our parameter structs in the driver's form, for template graphs and setters. Internal.
#pragma once

#include "device/driver/graph.h"

namespace cugrt::driver {

/// Fills the _v2 and _v3 structs, which differ in name only.
template <class Params> Params kernel_params(const LaunchParams &launch) {
  Params params{};
  if (launch.green) {
    params.kern = reinterpret_cast<CUkernel>(launch.function);
    params.ctx = launch.green; // which a func would bring, too, but of the whole device
  } else {
    params.func = launch.function;
  }
  set_shape(params, launch.grid, launch.block, launch.dynamic_shared_bytes);
  params.kernelParams = launch.arguments;
  return params;
}

inline CUDA_MEMCPY3D_v2 copy_params(const CopyParams &copy) {
  CUDA_MEMCPY3D_v2 params{};
  if (copy.source_kind == MemoryKind::host) {
    params.srcMemoryType = CU_MEMORYTYPE_HOST;
    params.srcHost = reinterpret_cast<const void *>(copy.source);
  } else {
    params.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    params.srcDevice = copy.source;
  }
  if (copy.destination_kind == MemoryKind::host) {
    params.dstMemoryType = CU_MEMORYTYPE_HOST;
    params.dstHost = reinterpret_cast<void *>(copy.destination);
  } else {
    params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    params.dstDevice = copy.destination;
  }
  params.WidthInBytes = copy.size_bytes;
  params.Height = params.Depth = 1;
  return params;
}

/// Fills the _v1 and _v2 structs.
template <class Params> Params fill_params(const FillParams &fill) {
  Params params{};
  params.dst = fill.destination;
  params.value = fill.value;
  params.elementSize = fill.element_bytes;
  params.width = fill.count;
  params.height = 1;
  return params;
}

} // namespace cugrt::driver
