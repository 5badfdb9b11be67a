// Launches of before cuLaunchKernel: block shape, shared memory and arguments are set on the
// function (LaunchState), call by call, and hold for every launch until they are set again.
#include "emulator/driver/code/launch.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator::api {

// The most that the arguments of a kernel may take, on any device.
constexpr uint64_t kMaxParamBytes = 32764;

// Body gets the function's state, with the lock held. `unknown` is what cuda.h lists for a function
// that is none: cuParamSet* and cuLaunch do not have CUDA_ERROR_INVALID_HANDLE.
template <class Body> static CUresult state_call(CUfunction handle, CUresult unknown, Body &&body) {
  return locked_call([&](Driver &driver) -> CUresult {
    Ref<Function> function = driver.functions.find(handle);
    return function ? body(function->launch_state) : unknown;
  });
}

static CUresult set_params(CUfunction handle, int offset, const void *bytes, uint64_t count) {
  return state_call(handle, CUDA_ERROR_INVALID_VALUE, [&](LaunchState &state) -> CUresult {
    if (offset < 0 || uint64_t(offset) + count > kMaxParamBytes || (count && !bytes))
      return CUDA_ERROR_INVALID_VALUE;
    size_t end = size_t(offset) + count;
    if (state.params.size() < end)
      state.params.resize(end);
    if (count)
      std::memcpy(state.params.data() + offset, bytes, count);
    return CUDA_SUCCESS;
  });
}

static CUresult launch_by_state(CUfunction handle, int width, int height, CUstream stream,
                                CUresult unknown) {
  return call([&](Driver &driver) -> CUresult {
    if (width <= 0 || height <= 0)
      return CUDA_ERROR_INVALID_VALUE;
    LaunchState state;
    {
      Lock lock(driver.mutex);
      Ref<Function> function = driver.functions.find(handle);
      if (!function)
        return unknown;
      state = function->launch_state;
      if (!state.block[0]) {
        driver.report(Check::refused, "kernel " + function->info->name +
                                          " is launched without a block shape: none has been set, "
                                          "or not since cuLaunchKernel launched it");
        return CUDA_ERROR_INVALID_VALUE;
      }
    }
    state.params.resize(std::max<size_t>(state.params.size(), state.param_bytes));
    size_t bytes = state.param_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, state.params.data(),
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    LaunchRequest request;
    request.function = handle;
    request.grid = {uint32_t(width), uint32_t(height), 1};
    request.block = state.block;
    request.dynamic_shared_bytes = state.dynamic_shared_bytes;
    request.extra = extra;
    request.by_state = true;
    return launch(driver, request, stream, nullptr, 0);
  });
}

// The launch refuses sizes that the device or the kernel has no room for.
ENTRY(cuFuncSetBlockShape, handle, x, y, z) {
  return state_call(handle, CUDA_ERROR_INVALID_HANDLE, [&](LaunchState &state) -> CUresult {
    if (x <= 0 || y <= 0 || z <= 0)
      return CUDA_ERROR_INVALID_VALUE;
    state.block = {uint32_t(x), uint32_t(y), uint32_t(z)};
    return CUDA_SUCCESS;
  });
}

ENTRY(cuFuncSetSharedSize, handle, bytes) {
  return state_call(handle, CUDA_ERROR_INVALID_HANDLE, [&](LaunchState &state) {
    state.dynamic_shared_bytes = bytes;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuParamSetSize, handle, bytes) {
  return state_call(handle, CUDA_ERROR_INVALID_VALUE, [&](LaunchState &state) -> CUresult {
    if (bytes > kMaxParamBytes)
      return CUDA_ERROR_INVALID_VALUE;
    state.param_bytes = bytes;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuParamSeti, handle, offset, value) {
  return set_params(handle, offset, &value, sizeof value);
}

ENTRY(cuParamSetf, handle, offset, value) {
  return set_params(handle, offset, &value, sizeof value);
}

ENTRY(cuParamSetv, handle, offset, bytes, count) {
  return set_params(handle, offset, bytes, count);
}

ENTRY(cuLaunch, handle) { return launch_by_state(handle, 1, 1, nullptr, CUDA_ERROR_INVALID_VALUE); }

ENTRY(cuLaunchGrid, handle, width, height) {
  return launch_by_state(handle, width, height, nullptr, CUDA_ERROR_INVALID_VALUE);
}

ENTRY(cuLaunchGridAsync, handle, width, height, stream) {
  return launch_by_state(handle, width, height, stream, CUDA_ERROR_INVALID_HANDLE);
}

} // namespace cugrt::emulator::api
