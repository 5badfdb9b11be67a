// The per-thread default stream forms (_ptsz, _ptds): the same calls with CU_STREAM_PER_THREAD in
// the place of the null stream. The synchronous ones (_ptds) are the asynchronous ones and a wait.
#include "emulator/graph/stream.h"

using namespace cugrt::emulator;
using namespace cugrt::emulator::api;

namespace {

CUresult then_wait(CUresult result) {
  return result == CUDA_SUCCESS ? cuStreamSynchronize(CU_STREAM_PER_THREAD) : result;
}

} // namespace

CUresult CUDAAPI cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags) {
  return cuEventRecordWithFlags(hEvent, per_thread(hStream), flags);
}

CUresult CUDAAPI cuEventRecord_ptsz(CUevent hEvent, CUstream hStream) {
  return cuEventRecord(hEvent, per_thread(hStream));
}

CUresult CUDAAPI cuGraphInstantiateWithParams_ptsz(
    CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
  return cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams);
}

CUresult CUDAAPI cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
  return cuGraphLaunch(hGraphExec, per_thread(hStream));
}

CUresult CUDAAPI cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
  return cuGraphUpload(hGraphExec, per_thread(hStream));
}

CUresult CUDAAPI cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX,
                                                unsigned int gridDimY, unsigned int gridDimZ,
                                                unsigned int blockDimX, unsigned int blockDimY,
                                                unsigned int blockDimZ, unsigned int sharedMemBytes,
                                                CUstream hStream, void **kernelParams) {
  return cuLaunchCooperativeKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                   sharedMemBytes, per_thread(hStream), kernelParams);
}

CUresult CUDAAPI cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void *userData) {
  return cuLaunchHostFunc(per_thread(hStream), fn, userData);
}

CUresult CUDAAPI cuLaunchHostFunc_v2_ptsz(CUstream hStream, CUhostFn fn, void *userData,
                                          unsigned int syncMode) {
  return cuLaunchHostFunc_v2(per_thread(hStream), fn, userData, syncMode);
}

CUresult CUDAAPI cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f,
                                       void **kernelParams, void **extra) {
  return cuLaunchKernelEx(config, f, kernelParams, extra);
}

CUresult CUDAAPI cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                     unsigned int gridDimZ, unsigned int blockDimX,
                                     unsigned int blockDimY, unsigned int blockDimZ,
                                     unsigned int sharedMemBytes, CUstream hStream,
                                     void **kernelParams, void **extra) {
  return cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                        sharedMemBytes, per_thread(hStream), kernelParams, extra);
}

CUresult CUDAAPI cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
  return cuMemAllocAsync(dptr, bytesize, per_thread(hStream));
}

CUresult CUDAAPI cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                              CUstream hStream) {
  return cuMemAllocFromPoolAsync(dptr, bytesize, pool, per_thread(hStream));
}

CUresult CUDAAPI cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) {
  return cuMemFreeAsync(dptr, per_thread(hStream));
}

CUresult CUDAAPI cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *pCopy, CUstream hStream) {
  return cuMemcpy2DAsync_v2(pCopy, per_thread(hStream));
}

CUresult CUDAAPI cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *pCopy) {
  return then_wait(cuMemcpy2DAsync_v2(pCopy, CU_STREAM_PER_THREAD));
}

CUresult CUDAAPI cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *pCopy) {
  return then_wait(cuMemcpy2DAsync_v2(pCopy, CU_STREAM_PER_THREAD));
}

CUresult CUDAAPI cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *pCopy, CUstream hStream) {
  return cuMemcpy3DAsync_v2(pCopy, per_thread(hStream));
}

CUresult CUDAAPI cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *pCopy) {
  return then_wait(cuMemcpy3DAsync_v2(pCopy, CU_STREAM_PER_THREAD));
}

CUresult CUDAAPI cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                                    CUstream hStream) {
  return cuMemcpyAsync(dst, src, ByteCount, per_thread(hStream));
}

CUresult CUDAAPI cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                           size_t ByteCount, CUstream hStream) {
  return cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, per_thread(hStream));
}

CUresult CUDAAPI cuMemcpyDtoD_v2_ptds(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                      size_t ByteCount) {
  return then_wait(cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, CU_STREAM_PER_THREAD));
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2_ptsz(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                           CUstream hStream) {
  return cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, per_thread(hStream));
}

CUresult CUDAAPI cuMemcpyDtoH_v2_ptds(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return then_wait(cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, CU_STREAM_PER_THREAD));
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dstDevice, const void *srcHost,
                                           size_t ByteCount, CUstream hStream) {
  return cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, per_thread(hStream));
}

CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void *srcHost,
                                      size_t ByteCount) {
  return then_wait(cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, CU_STREAM_PER_THREAD));
}

CUresult CUDAAPI cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return then_wait(cuMemcpyAsync(dst, src, ByteCount, CU_STREAM_PER_THREAD));
}

CUresult CUDAAPI cuMemsetD16Async_ptsz(CUdeviceptr dstDevice, unsigned short us, size_t N,
                                       CUstream hStream) {
  return cuMemsetD16Async(dstDevice, us, N, per_thread(hStream));
}

CUresult CUDAAPI cuMemsetD16_v2_ptds(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return cuMemsetD16Async(dstDevice, us, N, CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemsetD2D16Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                                         size_t Width, size_t Height, CUstream hStream) {
  return cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, per_thread(hStream));
}

CUresult CUDAAPI cuMemsetD2D16_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                                       size_t Width, size_t Height) {
  return cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemsetD2D32Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                                         size_t Width, size_t Height, CUstream hStream) {
  return cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, per_thread(hStream));
}

CUresult CUDAAPI cuMemsetD2D32_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                                       size_t Width, size_t Height) {
  return cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemsetD2D8Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                                        size_t Width, size_t Height, CUstream hStream) {
  return cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, per_thread(hStream));
}

CUresult CUDAAPI cuMemsetD2D8_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                                      size_t Width, size_t Height) {
  return cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemsetD32Async_ptsz(CUdeviceptr dstDevice, unsigned int ui, size_t N,
                                       CUstream hStream) {
  return cuMemsetD32Async(dstDevice, ui, N, per_thread(hStream));
}

CUresult CUDAAPI cuMemsetD32_v2_ptds(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return cuMemsetD32Async(dstDevice, ui, N, CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemsetD8Async_ptsz(CUdeviceptr dstDevice, unsigned char uc, size_t N,
                                      CUstream hStream) {
  return cuMemsetD8Async(dstDevice, uc, N, per_thread(hStream));
}

CUresult CUDAAPI cuMemsetD8_v2_ptds(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return cuMemsetD8Async(dstDevice, uc, N, CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuStreamAddCallback_ptsz(CUstream hStream, CUstreamCallback callback,
                                          void *userData, unsigned int flags) {
  return cuStreamAddCallback(per_thread(hStream), callback, userData, flags);
}

CUresult CUDAAPI cuStreamBatchMemOp_v2_ptsz(CUstream hStream, unsigned int count,
                                            CUstreamBatchMemOpParams *paramArray,
                                            unsigned int flags) {
  return cuStreamBatchMemOp_v2(per_thread(hStream), count, paramArray, flags);
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
                                                  const CUgraphNode *dependencies,
                                                  const CUgraphEdgeData *dependencyData,
                                                  size_t numDependencies,
                                                  CUstreamCaptureMode mode) {
  return cuStreamBeginCaptureToGraph(per_thread(hStream), hGraph, dependencies, dependencyData,
                                     numDependencies, mode);
}

CUresult CUDAAPI cuStreamBeginCapture_ptsz(CUstream hStream) {
  return cuStreamBeginCapture(per_thread(hStream));
}

CUresult CUDAAPI cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode) {
  return cuStreamBeginCapture_v2(per_thread(hStream), mode);
}

CUresult CUDAAPI cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src) {
  return cuStreamCopyAttributes(per_thread(dst), per_thread(src));
}

CUresult CUDAAPI cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph) {
  return cuStreamEndCapture(per_thread(hStream), phGraph);
}

CUresult CUDAAPI cuStreamGetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr,
                                           CUstreamAttrValue *value_out) {
  return cuStreamGetAttribute(per_thread(hStream), attr, value_out);
}

CUresult CUDAAPI cuStreamGetCaptureInfo_ptsz(CUstream hStream,
                                             CUstreamCaptureStatus *captureStatus_out,
                                             cuuint64_t *id_out) {
  return cuStreamGetCaptureInfo(per_thread(hStream), captureStatus_out, id_out);
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v2_ptsz(CUstream hStream,
                                                CUstreamCaptureStatus *captureStatus_out,
                                                cuuint64_t *id_out, CUgraph *graph_out,
                                                const CUgraphNode **dependencies_out,
                                                size_t *numDependencies_out) {
  return cuStreamGetCaptureInfo_v2(per_thread(hStream), captureStatus_out, id_out, graph_out,
                                   dependencies_out, numDependencies_out);
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v3_ptsz(CUstream hStream,
                                                CUstreamCaptureStatus *captureStatus_out,
                                                cuuint64_t *id_out, CUgraph *graph_out,
                                                const CUgraphNode **dependencies_out,
                                                const CUgraphEdgeData **edgeData_out,
                                                size_t *numDependencies_out) {
  return cuStreamGetCaptureInfo_v3(per_thread(hStream), captureStatus_out, id_out, graph_out,
                                   dependencies_out, edgeData_out, numDependencies_out);
}

CUresult CUDAAPI cuStreamGetCtx_ptsz(CUstream hStream, CUcontext *pctx) {
  return cuStreamGetCtx(per_thread(hStream), pctx);
}

CUresult CUDAAPI cuStreamGetCtx_v2_ptsz(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx) {
  return cuStreamGetCtx_v2(per_thread(hStream), pCtx, pGreenCtx);
}

CUresult CUDAAPI cuStreamGetDevResource_ptsz(CUstream hStream, CUdevResource *resource,
                                             CUdevResourceType type) {
  return cuStreamGetDevResource(per_thread(hStream), resource, type);
}

CUresult CUDAAPI cuStreamGetDevice_ptsz(CUstream hStream, CUdevice *device) {
  return cuStreamGetDevice(per_thread(hStream), device);
}

CUresult CUDAAPI cuStreamGetFlags_ptsz(CUstream hStream, unsigned int *flags) {
  return cuStreamGetFlags(per_thread(hStream), flags);
}

CUresult CUDAAPI cuStreamGetId_ptsz(CUstream hStream, unsigned long long *streamId) {
  return cuStreamGetId(per_thread(hStream), streamId);
}

CUresult CUDAAPI cuStreamGetPriority_ptsz(CUstream hStream, int *priority) {
  return cuStreamGetPriority(per_thread(hStream), priority);
}

CUresult CUDAAPI cuStreamIsCapturing_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus) {
  return cuStreamIsCapturing(per_thread(hStream), captureStatus);
}

CUresult CUDAAPI cuStreamQuery_ptsz(CUstream hStream) { return cuStreamQuery(per_thread(hStream)); }

CUresult CUDAAPI cuStreamSetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr,
                                           const CUstreamAttrValue *value) {
  return cuStreamSetAttribute(per_thread(hStream), attr, value);
}

CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream hStream) {
  return cuStreamSynchronize(per_thread(hStream));
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies_ptsz(CUstream hStream, CUgraphNode *dependencies,
                                                        size_t numDependencies,
                                                        unsigned int flags) {
  return cuStreamUpdateCaptureDependencies(per_thread(hStream), dependencies, numDependencies,
                                           flags);
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream hStream,
                                                           CUgraphNode *dependencies,
                                                           const CUgraphEdgeData *dependencyData,
                                                           size_t numDependencies,
                                                           unsigned int flags) {
  return cuStreamUpdateCaptureDependencies_v2(per_thread(hStream), dependencies, dependencyData,
                                              numDependencies, flags);
}

CUresult CUDAAPI cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  return cuStreamWaitEvent(per_thread(hStream), hEvent, Flags);
}

CUresult CUDAAPI cuStreamWaitValue32_v2_ptsz(CUstream hStream, CUdeviceptr addr, cuuint32_t value,
                                             unsigned int flags) {
  return cuStreamWaitValue32_v2(per_thread(hStream), addr, value, flags);
}

CUresult CUDAAPI cuStreamWaitValue64_v2_ptsz(CUstream hStream, CUdeviceptr addr, cuuint64_t value,
                                             unsigned int flags) {
  return cuStreamWaitValue64_v2(per_thread(hStream), addr, value, flags);
}

CUresult CUDAAPI cuStreamWriteValue32_v2_ptsz(CUstream hStream, CUdeviceptr addr, cuuint32_t value,
                                              unsigned int flags) {
  return cuStreamWriteValue32_v2(per_thread(hStream), addr, value, flags);
}

CUresult CUDAAPI cuStreamWriteValue64_v2_ptsz(CUstream hStream, CUdeviceptr addr, cuuint64_t value,
                                              unsigned int flags) {
  return cuStreamWriteValue64_v2(per_thread(hStream), addr, value, flags);
}
