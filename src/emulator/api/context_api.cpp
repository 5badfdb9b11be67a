// Questions to the current context, its limits and configuration.
#include "emulator/driver/device_limits.h"
#include "emulator/driver/driver.h"
#include "emulator/driver/memory/heap.h"

namespace cugrt::emulator::api {

namespace {

// Body gets the driver and the current context, with the lock held.
template <class Body> CUresult context_call(Body &&body) {
  return locked_call([&](Driver &driver) -> CUresult {
    CUGRT_EMU_FIND(Context, context, current_context_any, driver);
    return body(driver, context);
  });
}
#define CONTEXT_CALL(...)                                                                          \
  GUARDED(context_call(body), (Driver & driver, const Ref<Context> &context), __VA_ARGS__)

// CUDA 13.0 gave two functions a context as their last argument. Programs that take the highest
// _v2 that the library exports call them with the older arguments, and mean the current context: an
// older driver, if one was chosen, has no other meaning for the name.
CUresult named_context(Driver &driver, CUcontext handle, Ref<Context> *out) {
  constexpr int kTakesContext = 13000;
  if (!handle || driver.config.driver_version < kTakesContext)
    return current_context_any(driver, out);
  *out = driver.contexts.find(handle);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

struct Limit {
  CUlimit limit;
  size_t initial;
};
constexpr Limit kLimits[] = {{CU_LIMIT_STACK_SIZE, kDefaultStackBytes},
                             {CU_LIMIT_PRINTF_FIFO_SIZE, size_t(8) << 20},
                             {CU_LIMIT_MALLOC_HEAP_SIZE, kDefaultHeapBytes},
                             {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
                             {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0}};

const Limit *find_limit(CUlimit limit) {
  for (const Limit &row : kLimits)
    if (row.limit == limit)
      return &row;
  return nullptr;
}

// "The driver is free to modify the requested value to meet h/w requirements (this could be
// clamping to minimum or maximum values, rounding up to nearest element size, etc)."
uint64_t stack_bytes(size_t asked) {
  constexpr uint64_t kUnit = 16;
  return (std::min<uint64_t>(asked, kMaxStackBytes) + kUnit - 1) / kUnit * kUnit;
}

CUresult synchronize(Driver &driver, const Ref<Context> &context, Lock &lock) {
  // A synchronising call while work is captured ends all captures, whatever their modes.
  bool captured = false;
  auto end_capture = [&](Stream &stream) {
    if (!stream.capture)
      return;
    stream.capture->invalidated = captured = true;
  };
  for (const Ref<Stream> &stream : context->streams)
    end_capture(*stream);
  for (auto &[thread, stream] : context->per_thread_streams)
    end_capture(*stream);
  if (captured)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::vector<TaskPtr> tasks = pending_work(driver, *context);
  lock.unlock();
  wait_all(driver, tasks);
  return driver.scheduler->poison();
}

} // namespace

LOCKED_CALL(cuCtxSynchronize_v2, handle) {
  CUGRT_EMU_FIND(Context, context, named_context, driver, handle);
  CUGRT_EMU_TRY(driver.scheduler->poison());
  return synchronize(driver, context, lock);
}

CONTEXT_CALL(cuCtxGetDevice, device) { return give(device, 0); }

LOCKED_CALL(cuCtxGetDevice_v2, device, handle) {
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_FIND(Context, context, named_context, driver, handle);
  *device = 0;
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuCtxGetId, handle, id) {
  if (!id)
    return CUDA_ERROR_INVALID_VALUE;
  Ref<Context> context = driver.contexts.find(handle);
  if (!handle) { // "If the ctx is NULL, the context current to the calling CPU thread is used."
    CUGRT_EMU_TRY(current_context_any(driver, &context));
    handle = current_handle();
  }
  if (!context)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  Ref<GreenContext> green = driver.contexts.find_green(handle);
  *id = green ? green->id : context->id;
  return CUDA_SUCCESS;
}

CONTEXT_CALL(cuCtxGetFlags, flags) { return give(flags, context->flags); }

LOCKED_CALL(cuCtxGetApiVersion, handle, version) {
  if (!version)
    return CUDA_ERROR_INVALID_VALUE;
  Ref<Context> context = driver.contexts.find(handle);
  if (!handle)
    CUGRT_EMU_TRY(current_context_any(driver, &context));
  if (!context)
    return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020; // of the context's ABI, which has not changed since
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuCtxSetLimit, limit, value) {
  CUGRT_EMU_FIND(Context, context, current_context_any, driver);
  if (!find_limit(limit))
    return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
    return resize_heap(driver, context, value, lock);
  if (limit != CU_LIMIT_STACK_SIZE) {
    context->limits[limit] = value;
    return CUDA_SUCCESS;
  }
  const uint64_t bytes = stack_bytes(value);
  if (bytes < context->stack_bytes) { // what was launched before keeps its stack
    std::vector<TaskPtr> tasks = pending_work(driver, *context);
    lock.unlock();
    wait_all(driver, tasks);
  }
  context->stack_bytes = bytes;
  return CUDA_SUCCESS;
}

CONTEXT_CALL(cuCtxGetLimit, value, limit) {
  const Limit *row = find_limit(limit);
  if (value && !row)
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (limit == CU_LIMIT_STACK_SIZE)
    return give(value, context->stack_bytes);
  if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
    return give(value, context->heap_bytes);
  auto set = context->limits.find(limit);
  return give(value, set != context->limits.end() ? set->second : row ? row->initial : 0);
}

CONTEXT_CALL(cuCtxGetStreamPriorityRange, least, greatest) {
  if (least)
    *least = kLeastPriority;
  if (greatest)
    *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

CONTEXT_CALL(cuCtxGetCacheConfig, config) { return give(config, context->cache_config); }

CONTEXT_CALL(cuCtxSetCacheConfig, config) {
  if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
    return CUDA_ERROR_INVALID_VALUE;
  context->cache_config = config;
  return CUDA_SUCCESS;
}

// "On devices with fixed shared memory bank size": all since compute capability 5.0.
CONTEXT_CALL(cuCtxGetSharedMemConfig, config) {
  return give(config, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
}

CONTEXT_CALL(cuCtxSetSharedMemConfig, config) {
  return is_shared_config(config) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CONTEXT_CALL(cuCtxGetExecAffinity, out, type) {
  if (!out || type < 0 || type >= CU_EXEC_AFFINITY_TYPE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

ENTRY(cuCtxResetPersistingL2Cache, ) {
  return context_call([&](Driver &, const Ref<Context> &) { return CUDA_SUCCESS; });
}

} // namespace cugrt::emulator::api
