// The heap of a context, for malloc and free in its kernels. It is device memory like any other,
// taken when code that uses it is loaded. All need the lock.
#pragma once

#include "emulator/driver/driver.h"

namespace cugrt::emulator::api {

/// "If the memory allocation fails, the module load will generate a
/// CUDA_ERROR_SHARED_OBJECT_INIT_FAILED error." Nothing to do for code without malloc and free.
CUresult open_heap_for(Driver &driver, Context &context, const Program &program);
/// CU_LIMIT_MALLOC_HEAP_SIZE "must be performed before launching any kernel that uses the malloc()
/// or free() device system calls, otherwise CUDA_ERROR_INVALID_VALUE will be returned". Gives up
/// the lock to wait for the context's work where such code is loaded.
CUresult resize_heap(Driver &driver, const Ref<Context> &context, uint64_t bytes, Lock &lock);
void close_heap(Driver &driver, Context &context);

} // namespace cugrt::emulator::api
