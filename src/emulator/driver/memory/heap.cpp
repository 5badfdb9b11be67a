// Opening, resizing and closing a context's heap; see heap.h.
#include "emulator/driver/memory/heap.h"

#include <algorithm>

namespace cugrt::emulator::api {

/// False when the device has not so much left.
static bool open_heap(Driver &driver, Context &context, uint64_t bytes) {
  if (!driver.allocations->take(bytes))
    return false;
  if (bytes == 0 || context.heap.open(bytes))
    return true;
  driver.allocations->give_back(bytes);
  return false;
}

CUresult open_heap_for(Driver &driver, Context &context, const Program &program) {
  const auto kernels = program.kernels();
  const bool used = std::any_of(kernels.begin(), kernels.end(),
                                [](const KernelInfo *kernel) { return kernel->uses_heap; });
  if (!used || context.heap.bytes() || open_heap(driver, context, context.heap_bytes))
    return CUDA_SUCCESS;
  driver.set_message("no " + std::to_string(context.heap_bytes) +
                     " bytes of device memory are left for malloc in kernels");
  return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
}

CUresult resize_heap(Driver &driver, const Ref<Context> &context, uint64_t bytes, Lock &lock) {
  if (context->heap.bytes()) {
    std::vector<TaskPtr> tasks = pending_work(driver, *context);
    lock.unlock();
    wait_all(driver, tasks);
    lock.lock();
    if (!driver.contexts.find(context->handle)) // destroyed meanwhile
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  if (context->used_heap)
    return CUDA_ERROR_INVALID_VALUE;
  if (const uint64_t before = context->heap.bytes()) {
    close_heap(driver, *context);
    if (!open_heap(driver, *context, bytes)) {
      open_heap(driver, *context, before);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  context->heap_bytes = bytes;
  return CUDA_SUCCESS;
}

void close_heap(Driver &driver, Context &context) {
  driver.allocations->give_back(context.heap.bytes());
  context.heap.close();
}

} // namespace cugrt::emulator::api
