// Kernel launches.
#include "emulator/driver/code/launch.h"
#include "emulator/graph/stream.h"

namespace cugrt::emulator::api {

CUresult launch(Driver &driver, LaunchRequest request, CUstream handle,
                const CUlaunchAttribute *attributes, unsigned count) {
  if (count && !attributes)
    return CUDA_ERROR_INVALID_VALUE;
  // A function may be NULL in graph nodes that name a kernel; a launch has no such field.
  if (!request.function)
    return CUDA_ERROR_INVALID_HANDLE;
  Lock lock(driver.mutex);
  CUGRT_EMU_FIND(Stream, stream, find_stream, driver, handle);
  request.green = green_of(driver, *stream);
  KernelWork work;
  for (unsigned i = 0; i < count; ++i)
    work.attributes[attributes[i].id] = attributes[i].value;
  CUGRT_EMU_TRY(prepare_launch(driver, request, stream->context, &work));
  // "CUDA_ERROR_INVALID_HANDLE" when the function belongs to another context than the stream.
  if (work.function->context != stream->context)
    return CUDA_ERROR_INVALID_HANDLE;
  Ref<Function> function = work.function;
  CUGRT_EMU_TRY(run_in_stream(driver, stream, std::move(work)));
  // "Launching a function via cuLaunchKernel() invalidates the function's block shape, dynamic
  // shared memory size, and parameter information."
  if (!request.by_state)
    function->launch_state = {};
  return CUDA_SUCCESS;
}

static CUlaunchAttribute cooperative() {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  return attribute;
}

CALL(cuLaunchKernel, f, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
     params, extra) {
  LaunchRequest request{
      f,      nullptr, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes,
      params, extra};
  return launch(driver, request, stream, nullptr, 0);
}

CALL(cuLaunchCooperativeKernel, f, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
     stream, params) {
  LaunchRequest request{
      f,      nullptr, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes,
      params, nullptr};
  CUlaunchAttribute attribute = cooperative();
  return launch(driver, request, stream, &attribute, 1);
}

CALL(cuLaunchKernelEx, config, f, params, extra) {
  if (!config)
    return CUDA_ERROR_INVALID_VALUE;
  LaunchRequest request{f,
                        nullptr,
                        {config->gridDimX, config->gridDimY, config->gridDimZ},
                        {config->blockDimX, config->blockDimY, config->blockDimZ},
                        config->sharedMemBytes,
                        params,
                        extra};
  return launch(driver, request, config->hStream, config->attrs, config->numAttrs);
}

} // namespace cugrt::emulator::api
