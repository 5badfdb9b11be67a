// Peers. There is one device, which is no peer of its own; contexts of it share its memory, so that
// a copy between them is a copy within the device.
#include "emulator/graph/stream.h"

namespace cugrt::emulator::api {

static CUresult check_contexts(CUcontext destination, CUcontext source) {
  return call([&](Driver &driver) -> CUresult {
    return driver.contexts.find(destination) && driver.contexts.find(source)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_CONTEXT;
  });
}

LOCKED_CALL(cuCtxEnablePeerAccess, peer, flags) {
  if (flags)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_FIND(Context, context, current_context, driver);
  // "peerContext is not a valid context, or if the current context is peerContext"
  if (!driver.contexts.find(peer) || peer == context->handle)
    return CUDA_ERROR_INVALID_CONTEXT;
  return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED; // as cuDeviceCanAccessPeer says
}

LOCKED_CALL(cuCtxDisablePeerAccess, peer) {
  CUGRT_EMU_FIND(Context, context, current_context, driver);
  return driver.contexts.find(peer) ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
                                    : CUDA_ERROR_INVALID_CONTEXT;
}

CALL(cuDeviceGetP2PAttribute, value, attribute, device, peer) {
  if (!value || attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
      attribute > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
    return CUDA_ERROR_INVALID_VALUE;
  // "if srcDevice or dstDevice are not valid or if they represent the same device"
  return CUDA_ERROR_INVALID_DEVICE;
}

ENTRY(cuMemcpyPeer, to, to_context, from, from_context, bytes) {
  CUGRT_EMU_TRY(check_contexts(to_context, from_context));
  return cuMemcpyDtoD_v2(to, from, bytes);
}

ENTRY(cuMemcpyPeerAsync, to, to_context, from, from_context, bytes, stream) {
  CUGRT_EMU_TRY(check_contexts(to_context, from_context));
  return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

} // namespace cugrt::emulator::api
