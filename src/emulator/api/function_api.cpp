// Functions: attributes, parameter layout, occupancy.
#include "emulator/driver/code/launch.h"
#include "emulator/driver/device_limits.h"
#include "emulator/graph/stream.h"

#include <algorithm>

namespace cugrt::emulator::api {

CUresult get_function_attribute(Driver &driver, const Function &function,
                                CUfunction_attribute attribute, int *value) {
  const KernelInfo &info = *function.info;
  int capability = driver.config.profile->capability();
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    return give(value, info.max_threads_per_block);
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    return give(value, info.static_shared_bytes);
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    return give(value, info.local_bytes);
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    return give(value, info.registers);
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    return give(value, capability);
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    return give(value, function.max_dynamic_shared_bytes);
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    return give(value, function.carveout);
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: {
    const auto axis = size_t(attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
    return give(value, info.required_cluster[0] ? int(info.required_cluster[axis])
                                                : function.cluster[axis]);
  }
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    return give(value, function.non_portable_cluster);
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    return give(value, function.cluster_policy);
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    return give(value, info.constant_bytes);
  case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    return give(value, 0);
  case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    return give(value, info.explicit_cluster);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult set_function_attribute(Driver &driver, Function &function, CUfunction_attribute attribute,
                                int value) {
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
    // "The sum of this value and the function attribute CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES cannot
    // exceed the device attribute CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN."
    int64_t limit = driver.config.profile->max_shared_bytes_per_block_optin;
    if (value < 0 || int64_t(value) + function.info->static_shared_bytes > limit)
      return CUDA_ERROR_INVALID_VALUE;
    function.max_dynamic_shared_bytes = value;
    return CUDA_SUCCESS;
  }
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    if (value < -1 || value > 100) // a percentage, or the default
      return CUDA_ERROR_INVALID_VALUE;
    function.carveout = value;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    // "If the value is set during compile time, it cannot be set at runtime." "The validity of the
    // cluster dimensions is checked at launch time."
    if (function.info->required_cluster[0])
      return CUDA_ERROR_NOT_PERMITTED;
    if (value < 0)
      return CUDA_ERROR_INVALID_VALUE;
    function.cluster[size_t(attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH)] = value;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    function.non_portable_cluster = value != 0;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    if (value < CU_CLUSTER_SCHEDULING_POLICY_DEFAULT ||
        value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
      return CUDA_ERROR_INVALID_VALUE;
    function.cluster_policy = value;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE; // read-only or unknown
  }
}

CUresult get_param_count(const Function &function, size_t *out) {
  return give(out, function.info->params.size());
}

CUresult get_param_info(const Function &function, size_t index, size_t *offset, size_t *bytes) {
  // "CUDA_ERROR_INVALID_VALUE [...] if paramIndex is out of range"
  if (!offset || index >= function.info->params.size())
    return CUDA_ERROR_INVALID_VALUE;
  *offset = function.info->params[index].offset;
  if (bytes)
    *bytes = function.info->params[index].bytes;
  return CUDA_SUCCESS;
}

// A CUkernel may stand for a function, in the current context.
static CUresult find(Driver &driver, CUfunction handle, Ref<Function> *out) {
  *out = driver.functions.find(handle);
  if (*out)
    return CUDA_SUCCESS;
  if (!driver.kernels.find(reinterpret_cast<CUkernel>(handle)))
    return CUDA_ERROR_INVALID_HANDLE;
  CUGRT_EMU_FIND(Context, context, current_context, driver);
  return resolve_function(driver, handle, nullptr, context, out);
}

// Body gets the driver and the function, with the lock held.
template <class Body> static CUresult function_call(CUfunction handle, Body &&body) {
  return locked_call([&](Driver &driver) -> CUresult {
    CUGRT_EMU_FIND(Function, function, find, driver, handle);
    return body(driver, function);
  });
}
#define FUNCTION_CALL(...)                                                                         \
  GUARDED(function_call(handle, body), (Driver & driver, const Ref<Function> &function),           \
          __VA_ARGS__)

// Tries every block size, largest first: the smallest count of calls is not worth cleverness.
static CUresult best_block(Driver &driver, const Function &function, int *grid, int *block,
                           CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit) {
  if (!grid || !block)
    return CUDA_ERROR_INVALID_VALUE;
  const DeviceProfile &profile = *driver.config.profile;
  int most = int(function.info->max_threads_per_block);
  if (limit > 0)
    most = std::min(most, limit);
  int best_threads = 0;
  *grid = *block = 0;
  for (int threads = (most + 31) / 32 * 32; threads > 0; threads -= 32) {
    int tried = std::min(threads, most);
    size_t bytes = shared_of ? shared_of(tried) : shared_bytes;
    int blocks = max_active_blocks(profile, function, tried, bytes);
    if (blocks * tried > best_threads) {
      best_threads = blocks * tried;
      *block = tried;
      *grid = blocks * int(multiprocessors(driver, current_green(driver).get()));
    }
  }
  return *block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FUNCTION_CALL(cuFuncGetAttribute, value, attribute, handle) {
  return get_function_attribute(driver, *function, attribute, value);
}

FUNCTION_CALL(cuFuncSetAttribute, handle, attribute, value) {
  return set_function_attribute(driver, *function, attribute, value);
}

FUNCTION_CALL(cuFuncSetCacheConfig, handle, config) {
  return config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

FUNCTION_CALL(cuFuncSetSharedMemConfig, handle, config) {
  return is_shared_config(config) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FUNCTION_CALL(cuFuncGetModule, out, handle) { return give(out, function->module->handle); }
FUNCTION_CALL(cuFuncGetName, out, handle) { return give(out, function->info->name.c_str()); }

FUNCTION_CALL(cuFuncGetParamInfo, handle, index, offset, bytes) {
  return get_param_info(*function, index, offset, bytes);
}

FUNCTION_CALL(cuFuncGetParamCount, handle, out) { return get_param_count(*function, out); }

FUNCTION_CALL(cuFuncIsLoaded, state, handle) {
  return give(state, CU_FUNCTION_LOADING_STATE_LOADED);
}

FUNCTION_CALL(cuFuncLoad, handle) { return CUDA_SUCCESS; }

FUNCTION_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, blocks, handle, block_threads,
              shared_bytes, flags) {
  if (!blocks || block_threads <= 0 || (flags & ~unsigned(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)))
    return CUDA_ERROR_INVALID_VALUE;
  *blocks = max_active_blocks(*driver.config.profile, *function, block_threads, shared_bytes);
  return CUDA_SUCCESS;
}

CALL(cuOccupancyMaxPotentialBlockSizeWithFlags, grid, block, handle, shared_of, shared_bytes, limit,
     flags) {
  if (flags & ~unsigned(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE))
    return CUDA_ERROR_INVALID_VALUE;
  Ref<Function> function;
  {
    Lock lock(driver.mutex);
    CUGRT_EMU_TRY(find(driver, handle, &function));
  }
  // Runs without the lock, since shared_of is the program's.
  return best_block(driver, *function, grid, block, shared_of, shared_bytes, limit);
}

FUNCTION_CALL(cuOccupancyAvailableDynamicSMemPerBlock, bytes, handle, blocks, block_threads) {
  if (!bytes || blocks <= 0 || block_threads <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  const DeviceProfile &profile = *driver.config.profile;
  size_t best = 0;
  for (size_t tried = 0; tried <= size_t(function->max_dynamic_shared_bytes); tried += 128)
    if (max_active_blocks(profile, *function, block_threads, tried) >= blocks)
      best = tried;
  *bytes = best;
  return CUDA_SUCCESS;
}

/// Fills in a launch of `config`, as far as occupancy needs it.
static CUresult work_of(Driver &driver, CUfunction handle, const CUlaunchConfig &config,
                        KernelWork *out) {
  CUGRT_EMU_TRY(find(driver, handle, &out->function));
  if (config.numAttrs && !config.attrs)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config.numAttrs; ++i)
    out->attributes[config.attrs[i].id] = config.attrs[i].value;
  out->grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  out->block = {config.blockDimX, config.blockDimY, config.blockDimZ};
  out->dynamic_shared_bytes = config.sharedMemBytes;
  CUGRT_EMU_FIND(Stream, stream, find_stream_any, driver, config.hStream);
  out->green = green_of(driver, *stream);
  return CUDA_SUCCESS;
}

/// Blocks of the launch that the device holds at a time.
static uint64_t resident_blocks(const Driver &driver, const KernelWork &work) {
  const uint64_t threads = uint64_t(work.block[0]) * work.block[1] * work.block[2];
  const DeviceProfile &profile = *driver.config.profile;
  if (threads == 0 || threads > kMaxThreadsPerBlock)
    return 0;
  return uint64_t(
             max_active_blocks(profile, *work.function, int(threads), work.dynamic_shared_bytes)) *
         multiprocessors(driver, work.green.get());
}

// Which multiprocessors share clusters is unknown here: as many clusters as fit on the device.
LOCKED_CALL(cuOccupancyMaxActiveClusters, clusters, handle, config) {
  if (!clusters || !config)
    return CUDA_ERROR_INVALID_VALUE;
  KernelWork work;
  CUGRT_EMU_TRY(work_of(driver, handle, *config, &work));
  const auto cluster = cluster_of(work);
  CUGRT_EMU_TRY(check_attributes(driver, work));
  const uint64_t blocks = std::max(1u, cluster[0] * cluster[1] * cluster[2]);
  *clusters = int(resident_blocks(driver, work) / blocks);
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuOccupancyMaxPotentialClusterSize, blocks, handle, config) {
  if (!blocks || !config)
    return CUDA_ERROR_INVALID_VALUE;
  KernelWork work;
  CUGRT_EMU_TRY(work_of(driver, handle, *config, &work));
  const bool has_clusters = driver.config.profile->capability() >= kClusterCapability;
  *blocks = int(std::min<uint64_t>(has_clusters ? max_cluster_blocks(*work.function) : 1,
                                   resident_blocks(driver, work)));
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
