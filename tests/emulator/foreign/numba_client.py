"""numba: Python functions that NVVM makes PTX of and the driver links. numpy is the oracle.

Without nvJitLink, which would link to machine code, numba's kernels go through cuLink*.
"""
import sys
import warnings

import numpy as np
from numba import cuda, float32
from numba.cuda.core import config
import cuda.bindings._internal as bindings_internal

import cases

for module in ("cuda.bindings.nvjitlink", "cuda.bindings._internal.nvjitlink"):
    sys.modules[module] = None
bindings_internal.__dict__.pop("nvjitlink", None)
warnings.simplefilter("ignore")
RANDOM = np.random.default_rng(29)
N = 3000


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


@cuda.jit
def block_sum(x, out):
    shared = cuda.shared.array(128, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    shared[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    half = 64
    while half > 0:
        if t < half:
            shared[t] += shared[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.add(out, 0, shared[0])


@cuda.jit(device=True)
def clamp(x, low, high):
    return max(low, min(x, high))


@cuda.jit
def clamped(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = clamp(x[i], float32(-0.5), float32(0.5))


@cuda.jit
def matmul(a, b, out):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        out[row, column] = total


@cuda.jit
def warp_vote(x, out):
    i = cuda.grid(1)
    mask = cuda.ballot_sync(0xFFFFFFFF, x[i] > 0)
    if i % 32 == 0:
        out[i // 32] = cuda.popc(mask)


@cuda.jit
def atomics(bins, low, high, values):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(bins, values[i] % bins.size, 1)
        cuda.atomic.min(low, 0, values[i])
        cuda.atomic.max(high, 0, values[i])


@cuda.jit
def sines(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = np.sin(x[i]) + np.log(np.float64(2) + x[i])


@cuda.jit
def neighbours(values, out):
    i = cuda.grid(1)
    values[i] = i
    cuda.cg.this_grid().sync()
    out[i] = values[(i + 128) % values.size]


@cuda.jit
def own_arrays(out):
    i = cuda.grid(1)
    own = np.arange(i, i + 5)  # malloc in the kernel
    total = 0
    for x in own:
        total += x
    out[i] = total


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


BLOCKS = (N + 127) // 128


def case_arrays():
    """numba: numpy arrays go to the device and back around a launch"""
    a, b = floats(N), floats(N)
    out = np.zeros_like(a)
    add[BLOCKS, 128](a, b, out)
    assert np.array_equal(out, a + b)


def case_reduction():
    """numba: a reduction in shared memory with an atomic sum"""
    x = RANDOM.integers(-8, 8, N).astype(np.float32)  # integers: every sum is exact
    out = cuda.to_device(np.zeros(1, np.float32))
    block_sum[BLOCKS, 128](cuda.to_device(x), out)
    assert out.copy_to_host()[0] == x.sum()


def case_device_function():
    """numba: a device function is called"""
    x = floats(N)
    out = cuda.device_array(N, np.float32)
    clamped[BLOCKS, 128](cuda.to_device(x), out)
    assert np.array_equal(out.copy_to_host(), np.clip(x, -0.5, 0.5))


def case_two_dimensions():
    """numba: a grid of two dimensions and strided views"""
    a, b = floats(33, 20), floats(20, 17)
    out = cuda.device_array((33, 17), np.float32)
    matmul[(3, 2), (16, 16)](cuda.to_device(a), cuda.to_device(np.asfortranarray(b)), out)
    assert np.allclose(out.copy_to_host(), a @ b, rtol=1e-4, atol=1e-5)


def case_warp():
    """numba: votes and population counts of warps"""
    x = floats(256)
    out = cuda.device_array(8, np.int32)
    warp_vote[2, 128](cuda.to_device(x), out)
    assert np.array_equal(out.copy_to_host(), (x > 0).reshape(8, 32).sum(axis=1))


def case_atomics():
    """numba: atomic additions, minima and maxima"""
    values = RANDOM.integers(0, 1 << 20, N).astype(np.int32)
    bins, low, high = (cuda.to_device(np.full(n, v, np.int32)) for n, v in
                       ((64, 0), (1, 1 << 30), (1, -1)))
    atomics[BLOCKS, 128](bins, low, high, cuda.to_device(values))
    assert np.array_equal(bins.copy_to_host(), np.bincount(values % 64, minlength=64))
    assert (low.copy_to_host()[0], high.copy_to_host()[0]) == (values.min(), values.max())


def case_grid_barrier():
    """numba: the device runtime's barrier of a whole grid"""
    n = 8 * 128
    values, out = cuda.to_device(np.full(n, -1)), cuda.device_array(n, np.int64)
    neighbours[8, 128](values, out)
    assert np.array_equal(out.copy_to_host(), (np.arange(n) + 128) % n)


def case_heap():
    """numba: kernels make arrays of their own on the heap"""
    config.CUDA_ENABLE_NRT = True
    out = cuda.device_array(256, np.int64)
    for _ in range(3):
        own_arrays[2, 128](out)
    assert np.array_equal(out.copy_to_host(), 5 * np.arange(256) + 10)


def case_libdevice():
    """numba: double precision functions of libdevice"""
    x = np.abs(RANDOM.standard_normal(N)) * 1000
    out = cuda.device_array(N, np.float64)
    sines[BLOCKS, 128](cuda.to_device(x), out)
    assert np.allclose(out.copy_to_host(), np.sin(x) + np.log(2 + x), rtol=1e-13, atol=1e-13)


def case_streams():
    """numba: two streams ordered by an event, with pinned memory and elapsed time"""
    one, two = cuda.stream(), cuda.stream()
    start, end = cuda.event(), cuda.event()
    host = cuda.pinned_array(N, np.float32)
    host[:] = floats(N)
    x = host.copy()
    start.record(one)
    device = cuda.to_device(host, stream=one)
    add[BLOCKS, 128, one](device, device, device)
    end.record(one)
    end.wait(two)
    add[BLOCKS, 128, two](device, device, device)
    device.copy_to_host(host, stream=two)
    two.synchronize()
    assert np.array_equal(host, 4 * x)
    assert cuda.event_elapsed_time(start, end) >= 0


def case_mapped_and_managed():
    """numba: kernels work on mapped and on managed memory, which the host then reads"""
    for make in (cuda.mapped_array, cuda.managed_array):
        array = make(N, np.float32)
        array[:] = np.arange(N)
        add[BLOCKS, 128](array, array, array)
        cuda.synchronize()
        assert np.array_equal(array, 2 * np.arange(N, dtype=np.float32)), make


if __name__ == "__main__":
    cases.run(sys.modules[__name__])
