"""cuda-core: NVIDIA's objects over the driver. numpy is the oracle."""
import sys

import numpy as np
from cuda.core import (Device, DeviceMemoryResource, DeviceMemoryResourceOptions, EventOptions,
                       LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch)

import cases

SOURCE = r"""
template <class T> __global__ void add(T *c, const T *a, const T *b, size_t n) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    c[i] = a[i] + b[i];
}
extern "C" __global__ void triple(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 3;
}
"""
DEVICE = Device()
DEVICE.set_current()
STREAM = DEVICE.create_stream()
PINNED = LegacyPinnedMemoryResource()
CODE = Program(SOURCE, code_type="c++",
               options=ProgramOptions(std="c++17", arch=f"compute_{DEVICE.arch}")).compile(
                   "ptx", name_expressions=("add<float>", "add<int>"))
N = 2500
CONFIG = LaunchConfig(grid=10, block=256)


class Arrays:
    """Device buffers with their pinned twins, as numpy sees them."""

    def __init__(self, count, dtype=np.float32):
        size = N * np.dtype(dtype).itemsize
        self.device = [DEVICE.allocate(size, stream=STREAM) for _ in range(count)]
        self.pinned = [PINNED.allocate(size, stream=STREAM) for _ in range(count)]
        self.host = [np.from_dlpack(buffer).view(dtype) for buffer in self.pinned]

    def upload(self, index, values):
        self.host[index][:] = values
        self.device[index].copy_from(self.pinned[index], stream=STREAM)

    def download(self, index, stream=STREAM):
        self.pinned[index].copy_from(self.device[index], stream=stream)
        stream.sync()
        return self.host[index].copy()

    def close(self):
        STREAM.sync()
        for buffer in self.device + self.pinned:
            buffer.close(STREAM)
        STREAM.sync()


def case_device():
    """cuda-core: the device is found, named and described"""
    assert "EMULATED" in DEVICE.name
    assert len(Device.get_all_devices()) == 1
    assert DEVICE.properties.warp_size == 32
    assert DEVICE.properties.max_threads_per_block == 1024
    assert f"{DEVICE.compute_capability.major}{DEVICE.compute_capability.minor}" == DEVICE.arch


def case_kernel():
    """cuda-core: a kernel says what it needs"""
    kernel = CODE.get_kernel("add<float>")
    assert kernel.num_arguments == 4
    assert [info.size for info in kernel.arguments_info] == [8, 8, 8, 8]
    assert kernel.attributes.max_threads_per_block == 1024
    assert kernel.occupancy.max_active_blocks_per_multiprocessor(256, 0) >= 1


def case_launch():
    """cuda-core: template kernels over pool memory give numpy's numbers, in float and int"""
    for dtype, name in ((np.float32, "add<float>"), (np.int32, "add<int>")):
        arrays = Arrays(3, dtype)
        a, b = np.arange(N, dtype=dtype), np.full(N, 7, dtype)
        arrays.upload(0, a)
        arrays.upload(1, b)
        launch(STREAM, CONFIG, CODE.get_kernel(name), arrays.device[2], arrays.device[0],
               arrays.device[1], np.uint64(N))
        assert np.array_equal(arrays.download(2), a + b)
        arrays.close()


def case_events():
    """cuda-core: streams that wait for events of others, which are timed"""
    arrays, other = Arrays(1), DEVICE.create_stream()
    arrays.upload(0, np.arange(N))
    options = EventOptions(timing_enabled=True)
    start = STREAM.record(options=options)
    launch(STREAM, CONFIG, CODE.get_kernel("triple"), arrays.device[0], np.int32(N))
    other.wait(STREAM.record())
    launch(other, CONFIG, CODE.get_kernel("triple"), arrays.device[0], np.int32(N))
    end = other.record(options=options)
    end.sync()
    assert end.is_done and end - start >= 0
    assert np.array_equal(arrays.download(0, other), np.arange(N, dtype=np.float32) * 9)
    other.close()
    arrays.close()


def case_pool():
    """cuda-core: a memory pool of its own counts what is in use"""
    pool = DeviceMemoryResource(DEVICE, DeviceMemoryResourceOptions(max_size=1 << 20))
    buffer = pool.allocate(4096, stream=STREAM)
    assert pool.attributes.used_mem_current == 4096
    buffer.fill(0, stream=STREAM)
    buffer.close(STREAM)
    STREAM.sync()
    assert pool.attributes.used_mem_current == 0
    pool.close()


def case_graph_builder():
    """cuda-core: a graph that is built by capture, forked and joined, is launched twice"""
    arrays, triple = Arrays(2), CODE.get_kernel("triple")
    arrays.upload(0, 1)
    arrays.upload(1, 2)
    builder = DEVICE.create_graph_builder().begin_building()
    launch(builder, CONFIG, triple, arrays.device[0], np.int32(N))
    left, right = builder.split(2)
    launch(left, CONFIG, triple, arrays.device[0], np.int32(N))
    launch(right, CONFIG, triple, arrays.device[1], np.int32(N))
    graph = type(left).join(left, right).end_building().complete()
    for _ in range(2):
        graph.launch(STREAM)
    assert np.array_equal(arrays.download(0), np.full(N, 81, np.float32))
    assert np.array_equal(arrays.download(1), np.full(N, 18, np.float32))
    graph.close()
    arrays.close()


def case_cooperative():
    """cuda-core: a cooperative launch runs"""
    arrays = Arrays(1)
    arrays.upload(0, 5)
    config = LaunchConfig(grid=10, block=256, is_cooperative=True)
    launch(STREAM, config, CODE.get_kernel("triple"), arrays.device[0], np.int32(N))
    assert np.array_equal(arrays.download(0), np.full(N, 15, np.float32))
    arrays.close()


if __name__ == "__main__":
    cases.run(sys.modules[__name__])
