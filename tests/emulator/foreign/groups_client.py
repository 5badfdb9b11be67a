"""Programs of cooperative groups and of libcu++, compiled by NVRTC: clusters, barriers, pipelines, bulk copies."""
import ctypes
import glob
import os
import sys

import numpy as np
from cuda.bindings import driver, nvrtc

import cases

GROUPS = rb"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
namespace cg = cooperative_groups;

extern "C" __global__ void __cluster_dims__(4, 1, 1) rotate(int *out, const int *in) {
  __shared__ int m[64];
  auto cluster = cg::this_cluster();
  m[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
  cluster.sync();
  unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  out[blockIdx.x * 64 + threadIdx.x] = cluster.map_shared_rank(m, next)[threadIdx.x];
  cluster.sync();
}
extern "C" __global__ void histogram(unsigned *bins, const unsigned char *values, int n) {
  extern __shared__ unsigned local[];
  auto cluster = cg::this_cluster();
  const unsigned share = 256 / cluster.num_blocks();
  for (unsigned i = threadIdx.x; i < share; i += blockDim.x) local[i] = 0;
  cluster.sync();
  for (int i = cluster.thread_rank(); i < n; i += cluster.num_threads())
    atomicAdd(cluster.map_shared_rank(local, values[i] / share) + values[i] % share, 1u);
  cluster.sync();
  for (unsigned i = threadIdx.x; i < share; i += blockDim.x) bins[cluster.block_rank() * share + i] = local[i];
}
extern "C" __global__ void prefix(int *x, int n) {
  auto grid = cg::this_grid();
  for (int step = 1; step < n; step *= 2) {
    int i = grid.thread_rank();
    int add = i >= step && i < n ? x[i - step] : 0;
    grid.sync();
    if (i < n) x[i] += add;
    grid.sync();
  }
}
extern "C" __global__ void tiles(int *out, const int *in) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<64>(block);
  int sum = cg::reduce(tile, in[block.thread_rank()], cg::plus<int>());
  tile.sync();
  out[block.thread_rank()] = sum;
}
extern "C" __global__ void copied(float *out, const float *in) {
  __shared__ alignas(16) float m[256];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, m, in + blockIdx.x * 256, sizeof m);
  cg::wait(block);
  out[blockIdx.x * 256 + threadIdx.x] = 2 * m[255 - threadIdx.x];
}
extern "C" __global__ void bytes(signed char *s, unsigned char *u, float *back, const float *in) {
  int i = threadIdx.x;
  __nv_bfloat16 b = __float2bfloat16(in[i]);
  s[i] = static_cast<signed char>(b);
  u[i] = static_cast<unsigned char>(__float2bfloat16(fabsf(in[i])));
  back[i] = __bfloat162float(__nv_bfloat16(s[i])) + __bfloat162float(__nv_bfloat16(u[i]));
}
extern "C" __global__ void eights(signed char *s, float *back, const float *in) {
  int i = threadIdx.x;
  __nv_fp8_e4m3 e(in[i]);
  __nv_fp8_e5m2 f(in[i]);
  s[i] = static_cast<signed char>(e);
  back[i] = float(e) + float(__nv_fp8_e4m3(s[i])) + float(f);
}
"""
LIBRARY = rb"""
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

extern "C" __global__ void phases(int *out, int rounds) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ int m[2][128];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  int x = threadIdx.x;
  for (int r = 0; r < rounds; ++r) {
    m[r & 1][threadIdx.x] = x;
    auto token = bar.arrive();
    bar.wait(static_cast<decltype(token) &&>(token));
    x += m[r & 1][(threadIdx.x + 1) % blockDim.x];
  }
  out[threadIdx.x] = x;
}
extern "C" __global__ void staged(float *out, const float *in, int batches) {
  constexpr int kStages = 2;
  __shared__ alignas(16) float m[kStages][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  float sum = 0;
  for (int done = 0, fetched = 0; done < batches; ++done) {
    for (; fetched < batches && fetched < done + kStages; ++fetched) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, m[fetched % kStages], in + fetched * 128, cuda::aligned_size_t<16>(512), pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += m[done % kStages][127 - threadIdx.x];
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}
extern "C" __global__ void bulk(int *out, const int *in) {
  __shared__ alignas(16) int m[1024];
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  cuda::barrier<cuda::thread_scope_block>::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::memcpy_async(m, in, cuda::aligned_size_t<16>(sizeof m), bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, 0);
  } else {
    token = bar.arrive();
  }
  bar.wait(static_cast<decltype(token) &&>(token));
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) m[i] += i;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out, m, sizeof m);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}
"""
RANDOM = np.random.default_rng(5)


def check(answer):
    error, *values = answer
    assert error == driver.CUresult.CUDA_SUCCESS or error == nvrtc.nvrtcResult.NVRTC_SUCCESS, error
    return values[0] if len(values) == 1 else tuple(values)


def includes():
    nvidia = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "nvidia")
    found = sorted(glob.glob(os.path.join(nvidia, "*", "include")))
    return found + [path for path in (os.path.join(folder, "cccl") for folder in found) if os.path.isdir(path)]


class Device:
    def __init__(self):
        check(driver.cuInit(0))
        self.device = check(driver.cuDeviceGet(0))
        self.context = check(driver.cuDevicePrimaryCtxRetain(self.device))
        check(driver.cuCtxSetCurrent(self.context))
        self.modules = {}

    def module(self, source):
        if source not in self.modules:
            program = check(nvrtc.nvrtcCreateProgram(source, b"groups.cu", 0, [], []))
            options = [b"--gpu-architecture=compute_90", b"--std=c++17", b"-default-device"]
            options += [b"-I" + path.encode() for path in includes()]
            error, = nvrtc.nvrtcCompileProgram(program, len(options), options)
            if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
                log = b" " * check(nvrtc.nvrtcGetProgramLogSize(program))
                check(nvrtc.nvrtcGetProgramLog(program, log))
                raise RuntimeError(log.decode())
            ptx = b" " * check(nvrtc.nvrtcGetPTXSize(program))
            check(nvrtc.nvrtcGetPTX(program, ptx))
            self.modules[source] = check(driver.cuModuleLoadData(np.char.array(ptx).ctypes.data))
        return self.modules[source]

    def launch(self, source, name, grid, block, outputs, arguments, shared=0, cluster=0, cooperative=False):
        """Arrays are uploaded, integers passed; the first `outputs` arrays as they are afterwards."""
        function = check(driver.cuModuleGetFunction(self.module(source), name.encode()))
        values, types, buffers = [], [], []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                address = check(driver.cuMemAlloc(argument.nbytes))
                check(driver.cuMemcpyHtoD(address, argument.ctypes.data, argument.nbytes))
                buffers.append((address, argument))
                values.append(int(address))
                types.append(ctypes.c_void_p)
            else:
                values.append(argument)
                types.append(ctypes.c_int)
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = block, 1, 1
        config.sharedMemBytes = shared
        attribute = driver.CUlaunchAttribute()
        if cluster:
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = cluster, 1, 1
        if cooperative:
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attribute.value.cooperative = 1
        if cluster or cooperative:
            config.attrs, config.numAttrs = [attribute], 1
        check(driver.cuLaunchKernelEx(config, function, (tuple(values), tuple(types)), 0))
        check(driver.cuCtxSynchronize())
        results = []
        for address, argument in buffers[:outputs]:
            result = np.empty_like(argument)
            check(driver.cuMemcpyDtoH(result.ctypes.data, address, result.nbytes))
            results.append(result)
        for address, _ in buffers:
            check(driver.cuMemFree(address))
        return results if outputs > 1 else results[0]

    def close(self):
        for module in self.modules.values():
            check(driver.cuModuleUnload(module))
        check(driver.cuDevicePrimaryCtxRelease(self.device))


DEVICE = Device()


def case_rotate():
    """the blocks of a cluster read one another's shared memory"""
    x = RANDOM.integers(0, 1000, (2, 4, 64)).astype(np.int32)
    got = DEVICE.launch(GROUPS, "rotate", 8, 64, 1, [np.zeros_like(x), x])
    assert np.array_equal(got, np.roll(x, -1, axis=1))


def case_histogram():
    """a histogram that is spread over the shared memory of a cluster"""
    values = RANDOM.integers(0, 256, 5000).astype(np.uint8)
    got = DEVICE.launch(GROUPS, "histogram", 4, 96, 1, [np.zeros(256, np.uint32), values, len(values)],
                        shared=256, cluster=4)
    assert np.array_equal(got, np.bincount(values, minlength=256))


def case_grid():
    """the blocks of a cooperative launch meet at grid.sync()"""
    x = RANDOM.integers(0, 9, 500).astype(np.int32)
    got = DEVICE.launch(GROUPS, "prefix", 4, 128, 1, [x, len(x)], cooperative=True)
    assert np.array_equal(got, np.cumsum(x))


def case_tiles():
    """sums over tiles of two warps"""
    x = RANDOM.integers(0, 1000, (4, 64)).astype(np.int32)
    got = DEVICE.launch(GROUPS, "tiles", 1, 256, 1, [np.zeros_like(x), x])
    assert np.array_equal(got, np.repeat(x.sum(axis=1, keepdims=True), 64, axis=1))


def case_copied():
    """a block copies to shared memory and waits"""
    x = RANDOM.random((3, 256)).astype(np.float32)
    got = DEVICE.launch(GROUPS, "copied", 3, 256, 1, [np.zeros_like(x), x])
    assert np.array_equal(got, 2 * x[:, ::-1])


def case_bytes():
    """bf16 to and from integers of 8 bits"""
    x = np.concatenate([RANDOM.integers(-127, 128, 62), [100.5, -0.75]]).astype(np.float32)
    s, u, back = DEVICE.launch(GROUPS, "bytes", 1, 64, 3,
                               [np.zeros(64, np.int8), np.zeros(64, np.uint8), np.zeros(64, np.float32), x])
    assert np.array_equal(s, x.astype(np.int8)) and np.array_equal(u, np.abs(x).astype(np.uint8))
    assert np.array_equal(back, s.astype(np.float32) + u.astype(np.float32))


def case_eights():
    """fp8 to and from integers of 8 bits"""
    x = RANDOM.integers(-7, 8, 64).astype(np.float32)  # which both formats hold exactly
    s, back = DEVICE.launch(GROUPS, "eights", 1, 64, 2, [np.zeros(64, np.int8), np.zeros(64, np.float32), x])
    assert np.array_equal(s, x.astype(np.int8)) and np.array_equal(back, 3 * x)


def case_phases():
    """cuda::barrier, through many phases"""
    x = np.arange(128, dtype=np.int64)
    got = DEVICE.launch(LIBRARY, "phases", 1, 128, 1, [np.zeros(128, np.int32), 9])
    for _ in range(9):
        x = x + np.roll(x, -1)
    assert np.array_equal(got, x)


def case_staged():
    """cuda::pipeline of two stages"""
    x = RANDOM.integers(-50, 50, (11, 128)).astype(np.float32)
    got = DEVICE.launch(LIBRARY, "staged", 1, 128, 1, [np.zeros(128, np.float32), x, 11])
    assert np.array_equal(got, x.sum(axis=0)[::-1])


def case_bulk():
    """bulk copies to shared memory and back"""
    x = RANDOM.integers(-50, 50, 1024).astype(np.int32)
    got = DEVICE.launch(LIBRARY, "bulk", 1, 128, 1, [np.zeros_like(x), x])
    assert np.array_equal(got, x + np.arange(1024))


if __name__ == "__main__":
    try:
        cases.run(sys.modules[__name__])
    finally:
        DEVICE.close()
