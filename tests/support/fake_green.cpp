// The fake driver's devices have no parts: whoever asks for one is told so.
#include "support/fake_state.h"

namespace cugrt::test {

CUresult FakeState::DeviceGetDevResource(CUdevice, CUdevResource *, CUdevResourceType) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult FakeState::DevSmResourceSplitByCount(CUdevResource *, unsigned *, const CUdevResource *,
                                              CUdevResource *, unsigned, unsigned) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult FakeState::DevResourceGenerateDesc(CUdevResourceDesc *, CUdevResource *, unsigned) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult FakeState::GreenCtxCreate(CUgreenCtx *, CUdevResourceDesc, CUdevice, unsigned) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult FakeState::GreenCtxDestroy(CUgreenCtx) { return CUDA_ERROR_INVALID_CONTEXT; }
CUresult FakeState::GreenCtxGetDevResource(CUgreenCtx, CUdevResource *, CUdevResourceType) {
  return CUDA_ERROR_INVALID_CONTEXT;
}
CUresult FakeState::CtxFromGreenCtx(CUcontext *, CUgreenCtx) { return CUDA_ERROR_INVALID_CONTEXT; }
CUresult FakeState::LibraryLoadData(CUlibrary *, const void *, CUjit_option *, void **, unsigned,
                                    CUlibraryOption *, void **, unsigned) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult FakeState::LibraryUnload(CUlibrary) { return CUDA_ERROR_INVALID_HANDLE; }
CUresult FakeState::LibraryGetKernel(CUkernel *, CUlibrary, const char *) {
  return CUDA_ERROR_INVALID_HANDLE;
}
CUresult FakeState::LibraryGetGlobal(CUdeviceptr *, size_t *, CUlibrary, const char *) {
  return CUDA_ERROR_INVALID_HANDLE;
}
CUresult FakeState::KernelGetFunction(CUfunction *, CUkernel) { return CUDA_ERROR_INVALID_HANDLE; }

} // namespace cugrt::test
