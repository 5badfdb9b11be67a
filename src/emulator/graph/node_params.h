// Between the API's parameter structs and Work: checking and copying in, writing out.
#pragma once

#include "emulator/driver/driver.h"

namespace cugrt::emulator::api {

// All need the lock. `context` handles that are null mean the current context.

/// The context of a handle, and the green one whose it is or nullptr; of null the current ones.
CUresult context_of(Driver &driver, CUcontext handle, Ref<Context> *out, Ref<GreenContext> *green);

/// Attributes are kept from `old`, if there is one, and the green context of a function's node.
CUresult kernel_to_work(Driver &driver, const CUDA_KERNEL_NODE_PARAMS_v3 &params,
                        const KernelWork *old, Work *out);
/// Parameters that are null are refused.
CUresult copy_to_work(Driver &driver, const CUDA_MEMCPY3D *copy, CUcontext context, Work *out);
CUresult fill_to_work(Driver &driver, const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context,
                      Work *out);
CUresult host_to_work(CUhostFn function, void *user, unsigned sync_mode, Work *out);
CUresult host_params_to_work(Driver &driver, const CUDA_HOST_NODE_PARAMS *params, Work *out);
CUresult event_to_work(Driver &driver, CUevent event, bool record, Work *out);
/// "Reserved. Must be zero."
bool reserved_zero(const CUgraphNodeParams &params);
/// The generic struct, of any type but a conditional; of a kernel node `old` keeps what
/// kernel_to_work says.
CUresult params_to_work(Driver &driver, const CUgraphNodeParams &params, const Work *old,
                        Work *out);

/// The parameters as calls before CUDA 13.4 read them: ctx "is ignored if func is set".
CUgraphNodeParams as_before_13_4(CUgraphNodeParams params);
/// "All bytes past the utilized union member [...] must be set to zero", in the layout of
/// CUDA 13.5.
bool rest_zero(const CUgraphNodeParams &params);
/// The generic struct of a node. Its pointers refer to the node's memory, until it is destroyed.
CUgraphNodeParams params_of(GraphNode &node);
CUDA_KERNEL_NODE_PARAMS_v3 kernel_params(GraphNode &node);

inline CUDA_KERNEL_NODE_PARAMS_v3 widen(const CUDA_KERNEL_NODE_PARAMS_v1 &p) {
  return {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
          p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    nullptr,     nullptr};
}
inline CUDA_KERNEL_NODE_PARAMS_v3 widen(const CUDA_KERNEL_NODE_PARAMS_v2 &p) {
  return {p.func,         p.gridDimX,  p.gridDimY,  p.gridDimZ,
          p.blockDimX,    p.blockDimY, p.blockDimZ, p.sharedMemBytes,
          p.kernelParams, p.extra,     p.kern,      p.func ? nullptr : p.ctx};
}

/// The context of a copy or a fill, the green one if it was asked for in such.
template <class W> CUcontext context_handle(const W &work) {
  return work.green ? work.green->as_context : work.context->handle;
}

/// Whether the work is a kernel without blocks, which a node may hold and no launch.
bool has_empty_grid(const Work &work);
/// Whether the work is a kernel whose green context was destroyed since.
bool lost_green_context(const Work &work);

} // namespace cugrt::emulator::api
