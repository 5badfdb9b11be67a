"""cuda-bindings: the driver API as C programs use it, from Python. numpy is the oracle."""
import ctypes
import sys

import numpy as np
from cuda.bindings import driver, nvrtc

import cases

SOURCE = rb"""
extern "C" __global__ void affine(float *y, const float *x, float a, float b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + b;
}
extern "C" __global__ void transpose(float *to, const float *from, int rows, int columns) {
  __shared__ float tile[16][17];
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  if (x < columns && y < rows) tile[threadIdx.y][threadIdx.x] = from[y * columns + x];
  __syncthreads();
  x = blockIdx.y * 16 + threadIdx.x, y = blockIdx.x * 16 + threadIdx.y;
  if (x < rows && y < columns) to[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void histogram(unsigned *bins, const unsigned char *values, int n) {
  extern __shared__ unsigned local[];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&local[values[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}
__constant__ float scale[4];
extern "C" __global__ void scaled(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= scale[i % 4];
}
"""
NON_BLOCKING = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
RANDOM = np.random.default_rng(17)


def check(answer):
    error, *values = answer
    assert error == driver.CUresult.CUDA_SUCCESS or error == nvrtc.nvrtcResult.NVRTC_SUCCESS, error
    return values[0] if len(values) == 1 else tuple(values)


class Device:
    """The context and the module that all cases share."""

    def __init__(self):
        check(driver.cuInit(0))
        self.device = check(driver.cuDeviceGet(0))
        self.context = check(driver.cuDevicePrimaryCtxRetain(self.device))
        check(driver.cuCtxSetCurrent(self.context))
        ask = driver.CUdevice_attribute
        self.capability = [check(driver.cuDeviceGetAttribute(which, self.device)) for which in
                           (ask.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                            ask.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)]
        program = check(nvrtc.nvrtcCreateProgram(SOURCE, b"client.cu", 0, [], []))
        options = [b"--gpu-architecture=compute_%d%d" % tuple(self.capability), b"-lineinfo"]
        check(nvrtc.nvrtcCompileProgram(program, len(options), options))
        self.ptx = bytes(check(nvrtc.nvrtcGetPTXSize(program)))
        check(nvrtc.nvrtcGetPTX(program, self.ptx))
        self.module = check(driver.cuModuleLoadData(self.ptx))

    def kernel(self, name):
        return check(driver.cuModuleGetFunction(self.module, name))


DEVICE = Device()
AFFINE = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_float, ctypes.c_int)


def allocate(size):
    return int(check(driver.cuMemAlloc(size)))  # a number, as kernels' arguments want it


def upload(array):
    address = allocate(array.nbytes)
    check(driver.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))
    return address


def download(address, like):
    array = np.empty_like(like)
    check(driver.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes))
    return array


def free(*addresses):
    for address in addresses:
        check(driver.cuMemFree(address))


def case_device():
    """cuda-bindings: the device is enumerated and says that it is emulated"""
    assert check(driver.cuDeviceGetCount()) == 1
    name = check(driver.cuDeviceGetName(100, DEVICE.device)).rstrip(b"\0")
    assert b"EMULATED" in name, name
    assert check(driver.cuDeviceTotalMem(DEVICE.device)) > 0
    assert check(driver.cuDriverGetVersion()) >= 12020


def case_streams():
    """cuda-bindings: two streams that an event orders give numpy's numbers"""
    x = RANDOM.standard_normal(5000).astype(np.float32)
    dx, dy = upload(x), allocate(x.nbytes)
    one, two = (check(driver.cuStreamCreate(NON_BLOCKING)) for _ in range(2))
    event = check(driver.cuEventCreate(0))
    affine = DEVICE.kernel(b"affine")
    check(driver.cuLaunchKernel(affine, 20, 1, 1, 256, 1, 1, 0, one,
                                ((dy, dx, 2.0, 1.0, x.size), AFFINE), 0))
    check(driver.cuEventRecord(event, one))
    check(driver.cuStreamWaitEvent(two, event, 0))
    check(driver.cuLaunchKernel(affine, 20, 1, 1, 256, 1, 1, 0, two,
                                ((dy, dy, 0.5, 0.0, x.size), AFFINE), 0))
    check(driver.cuStreamSynchronize(two))
    expected = (np.float32(2) * x + np.float32(1)) * np.float32(0.5)
    assert np.allclose(download(dy, x), expected, rtol=1e-6)
    for stream in (one, two):
        check(driver.cuStreamDestroy(stream))
    check(driver.cuEventDestroy(event))
    free(dx, dy)


def case_shared_memory():
    """cuda-bindings: a transposition through shared memory is exact"""
    matrix = RANDOM.standard_normal((70, 45)).astype(np.float32)
    source, target = upload(matrix), allocate(matrix.nbytes)
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    check(driver.cuLaunchKernel(DEVICE.kernel(b"transpose"), 3, 5, 1, 16, 16, 1, 0, 0,
                                ((target, source, 70, 45), types), 0))
    check(driver.cuCtxSynchronize())
    assert np.array_equal(download(target, np.empty((45, 70), np.float32)), matrix.T)
    free(source, target)


def case_atomics():
    """cuda-bindings: a histogram with dynamic shared memory and atomics counts as numpy does"""
    values = RANDOM.integers(0, 256, 20000, dtype=np.uint8)
    dv, bins = upload(values), allocate(1024)
    check(driver.cuMemsetD32(bins, 0, 256))
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    check(driver.cuLaunchKernel(DEVICE.kernel(b"histogram"), 7, 1, 1, 128, 1, 1, 1024, 0,
                                ((bins, dv, values.size), types), 0))
    got = download(bins, np.empty(256, np.uint32))
    assert np.array_equal(got, np.bincount(values, minlength=256))
    free(dv, bins)


def case_globals():
    """cuda-bindings: a module's constant is found, written and used"""
    address, size = check(driver.cuModuleGetGlobal(DEVICE.module, b"scale"))
    assert size == 16
    factors = np.array([1, 2, -3, 0.5], np.float32)
    check(driver.cuMemcpyHtoD(address, factors.ctypes.data, 16))
    x = RANDOM.standard_normal(1001).astype(np.float32)
    dx = upload(x)
    check(driver.cuLaunchKernel(DEVICE.kernel(b"scaled"), 8, 1, 1, 128, 1, 1, 0, 0,
                                ((dx, x.size), (ctypes.c_void_p, ctypes.c_int)), 0))
    assert np.array_equal(download(dx, x), x * np.resize(factors, x.size))
    free(dx)


def kernel_node(function, blocks, threads, values, types):
    params = driver.CUDA_KERNEL_NODE_PARAMS()
    params.func = function
    params.gridDimX, params.gridDimY, params.gridDimZ = blocks, 1, 1
    params.blockDimX, params.blockDimY, params.blockDimZ = threads, 1, 1
    params.kernelParams = (values, types)
    return params


def case_graph():
    """cuda-bindings: an explicit graph is built, launched, patched, disabled in part and updated"""
    n = 3000
    x = RANDOM.standard_normal(n).astype(np.float32)
    dx, left, right = upload(x), *(allocate(x.nbytes) for _ in range(2))
    stream = check(driver.cuStreamCreate(NON_BLOCKING))
    affine = DEVICE.kernel(b"affine")

    def build(a, b):
        graph = check(driver.cuGraphCreate(0))
        first = check(driver.cuGraphAddKernelNode(
            graph, None, 0, kernel_node(affine, 12, 256, (left, dx, a, 0.0, n), AFFINE)))
        second = check(driver.cuGraphAddKernelNode(
            graph, [first], 1, kernel_node(affine, 12, 256, (right, left, 1.0, b, n), AFFINE)))
        return graph, first, second

    def launch():
        check(driver.cuGraphLaunch(instance, stream))
        check(driver.cuStreamSynchronize(stream))
        return download(right, x)

    graph, first, second = build(2.0, 4.0)
    instance = check(driver.cuGraphInstantiate(graph, 0))
    assert np.array_equal(launch(), x * np.float32(2) + np.float32(4))
    check(driver.cuGraphExecKernelNodeSetParams(
        instance, first, kernel_node(affine, 12, 256, (left, dx, -8.0, 0.0, n), AFFINE)))
    assert np.array_equal(launch(), x * np.float32(-8) + np.float32(4))
    check(driver.cuGraphNodeSetEnabled(instance, first, 0))
    check(driver.cuMemcpyHtoD(left, x.ctypes.data, x.nbytes))
    assert np.array_equal(launch(), x + np.float32(4))
    check(driver.cuGraphNodeSetEnabled(instance, first, 1))
    other, _, _ = build(0.5, -1.0)
    check(driver.cuGraphExecUpdate(instance, other))
    assert np.array_equal(launch(), x * np.float32(0.5) - np.float32(1))
    # Another topology is refused.
    check(driver.cuGraphAddEmptyNode(other, None, 0))
    error, _ = driver.cuGraphExecUpdate(instance, other)
    assert error == driver.CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
    for handle, destroy in ((instance, driver.cuGraphExecDestroy), (graph, driver.cuGraphDestroy),
                            (other, driver.cuGraphDestroy), (stream, driver.cuStreamDestroy)):
        check(destroy(handle))
    free(dx, left, right)


def case_capture():
    """cuda-bindings: a captured graph of two streams gives numpy's numbers"""
    x = RANDOM.standard_normal(777).astype(np.float32)
    dx, a, b = upload(x), *(allocate(x.nbytes) for _ in range(2))
    one, two = (check(driver.cuStreamCreate(NON_BLOCKING)) for _ in range(2))
    fork, join = (check(driver.cuEventCreate(2)) for _ in range(2))
    affine = DEVICE.kernel(b"affine")

    def run(stream, *values):
        check(driver.cuLaunchKernel(affine, 7, 1, 1, 128, 1, 1, 0, stream, (values, AFFINE), 0))

    check(driver.cuStreamBeginCapture(
        one, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    check(driver.cuEventRecord(fork, one))
    check(driver.cuStreamWaitEvent(two, fork, 0))
    run(one, a, dx, 3.0, 0.0, x.size)
    run(two, b, dx, 1.0, 5.0, x.size)
    check(driver.cuEventRecord(join, two))
    check(driver.cuStreamWaitEvent(one, join, 0))
    run(one, dx, b, 2.0, 0.0, x.size)
    graph = check(driver.cuStreamEndCapture(one))
    assert np.array_equal(download(dx, x), x)  # nothing ran
    instance = check(driver.cuGraphInstantiate(graph, 0))
    check(driver.cuGraphLaunch(instance, one))
    check(driver.cuStreamSynchronize(one))
    assert np.array_equal(download(a, x), x * np.float32(3))
    assert np.array_equal(download(dx, x), (x + np.float32(5)) * np.float32(2))
    for handle, destroy in ((instance, driver.cuGraphExecDestroy), (graph, driver.cuGraphDestroy),
                            (fork, driver.cuEventDestroy), (join, driver.cuEventDestroy),
                            (one, driver.cuStreamDestroy), (two, driver.cuStreamDestroy)):
        check(destroy(handle))
    free(dx, a, b)


def case_libraries():
    """cuda-bindings: a library's kernel is launched by cuLaunchKernelEx"""
    library = check(driver.cuLibraryLoadData(DEVICE.ptx, [], [], 0, [], [], 0))
    kernel = check(driver.cuLibraryGetKernel(library, b"affine"))
    x = RANDOM.standard_normal(100).astype(np.float32)
    dx = upload(x)
    config = driver.CUlaunchConfig()
    config.gridDimX = config.gridDimY = config.gridDimZ = 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 128, 1, 1
    check(driver.cuLaunchKernelEx(config, driver.CUfunction(int(kernel)),
                                  ((dx, dx, 4.0, 0.0, x.size), AFFINE), 0))
    assert np.array_equal(download(dx, x), x * np.float32(4))
    free(dx)
    check(driver.cuLibraryUnload(library))


def case_misuse():
    """cuda-bindings: misuse is answered with the documented error"""
    results = driver.CUresult
    assert driver.cuModuleGetFunction(DEVICE.module, b"absent")[0] == results.CUDA_ERROR_NOT_FOUND
    assert driver.cuMemFree(driver.CUdeviceptr(64))[0] == results.CUDA_ERROR_INVALID_VALUE
    stream = check(driver.cuStreamCreate(0))
    check(driver.cuStreamDestroy(stream))
    # "hStream - the stream to be synchronised": a handle that is no more is refused.
    assert driver.cuStreamSynchronize(stream)[0] != results.CUDA_SUCCESS
    assert b"INVALID" in check(driver.cuGetErrorName(results.CUDA_ERROR_INVALID_VALUE))


def case_end():
    """cuda-bindings: nothing is left when the context is released"""
    check(driver.cuModuleUnload(DEVICE.module))
    check(driver.cuDevicePrimaryCtxRelease(DEVICE.device))


if __name__ == "__main__":
    cases.run(sys.modules[__name__])
