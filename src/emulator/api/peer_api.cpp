// Peers. There is one device, which is no peer of its own; contexts of it share its memory, so that
// a copy between them is a copy within the device.
#include "emulator/graph/stream.h"

namespace cugrt::emulator::api {

namespace {

CUresult check_contexts(CUcontext destination, CUcontext source) {
  return call([&](Driver &driver) -> CUresult {
    return driver.contexts.find(destination) && driver.contexts.find(source)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_CONTEXT;
  });
}

} // namespace

} // namespace cugrt::emulator::api

using namespace cugrt::emulator;
using namespace cugrt::emulator::api;

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  return call([&](Driver &driver) -> CUresult {
    if (flags)
      return CUDA_ERROR_INVALID_VALUE;
    Lock lock(driver.mutex);
    CUGRT_EMU_FIND(Context, context, current_context, driver);
    // "peerContext is not a valid context, or if the current context is peerContext"
    if (!driver.contexts.find(peer) || peer == context->handle)
      return CUDA_ERROR_INVALID_CONTEXT;
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED; // as cuDeviceCanAccessPeer says
  });
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer) {
  return locked_call([&](Driver &driver) -> CUresult {
    CUGRT_EMU_FIND(Context, context, current_context, driver);
    return driver.contexts.find(peer) ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
                                      : CUDA_ERROR_INVALID_CONTEXT;
  });
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice,
                                         CUdevice) {
  return call([&](Driver &) -> CUresult {
    if (!value || attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
        attribute > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
      return CUDA_ERROR_INVALID_VALUE;
    // "if srcDevice or dstDevice are not valid or if they represent the same device"
    return CUDA_ERROR_INVALID_DEVICE;
  });
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                              CUcontext from_context, size_t bytes) {
  CUGRT_EMU_TRY(check_contexts(to_context, from_context));
  return cuMemcpyDtoD_v2(to, from, bytes);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                   CUcontext from_context, size_t bytes, CUstream stream) {
  CUGRT_EMU_TRY(check_contexts(to_context, from_context));
  return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}
