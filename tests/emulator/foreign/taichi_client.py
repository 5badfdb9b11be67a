"""Taichi: Python functions that its own LLVM makes PTX of, over its runtime's PTX. numpy is the oracle."""
import sys

import numpy as np
import taichi as ti

import cases

# A device of few multiprocessors is chosen outside: states of random numbers are set up for each of its threads.
ti.init(arch=ti.cuda, offline_cache=False, log_level=ti.WARN, device_memory_GB=0.25, random_seed=3)
RANDOM = np.random.default_rng(31)
N = 1000

numbers = ti.field(ti.f32, shape=N)
total = ti.field(ti.i32, shape=())
matrices = ti.Matrix.field(3, 3, ti.f32, shape=64)
sparse = ti.field(ti.i32)
ti.root.pointer(ti.i, 32).dense(ti.i, 16).place(sparse)
visited = ti.field(ti.i32, shape=())


@ti.kernel
def fill():
    for i in numbers:
        numbers[i] = ti.cast(i, ti.f32) * 2.0 + 1.0


@ti.kernel
def count_even(x: ti.types.ndarray()):
    for i in x:
        if x[i] % 2 == 0:
            total[None] += 1


@ti.kernel
def saxpy(a: ti.f32, x: ti.types.ndarray(), y: ti.types.ndarray()):
    for i in x:
        y[i] = a * x[i] + ti.sin(y[i])


@ti.kernel
def times_inverse():
    for i in matrices:
        matrices[i] = matrices[i] @ matrices[i].inverse()


@ti.kernel
def activate(step: ti.i32):
    for i in range(512 // step):
        sparse[i * step] = i


@ti.kernel
def visit():
    for i in sparse:
        visited[None] += 1
        total[None] += sparse[i]


@ti.kernel
def draw():
    for i in numbers:
        numbers[i] = ti.random()


def case_fields():
    """taichi: a field is written by one thread an element"""
    fill()
    assert np.array_equal(numbers.to_numpy(), np.arange(N, dtype=np.float32) * 2 + 1)


def case_atomics():
    """taichi: a reduction by atomic additions"""
    values = RANDOM.integers(0, 100, N).astype(np.int32)
    total[None] = 0
    count_even(values)
    assert total[None] == np.count_nonzero(values % 2 == 0)


def case_arrays():
    """taichi: numpy arrays go to the device and back around a kernel"""
    x, y = (RANDOM.random(777).astype(np.float32) for _ in range(2))
    expected = 3 * x + np.sin(y)
    saxpy(3.0, x, y)
    assert np.allclose(y, expected, rtol=1e-5, atol=1e-6)


def case_matrices():
    """taichi: small matrices in registers times their inverses"""
    matrices.from_numpy((RANDOM.random((64, 3, 3)) + 4 * np.eye(3)).astype(np.float32))
    times_inverse()
    assert np.allclose(matrices.to_numpy(), np.eye(3), atol=1e-5)


def case_sparse():
    """taichi: blocks of a sparse field are made by the threads that first write them"""
    total[None] = visited[None] = 0
    activate(64)  # 8 elements, each in a block of 16 of its own
    visit()
    assert visited[None] == 8 * 16
    assert total[None] == sum(range(8))


def case_random():
    """taichi: random numbers lie in their interval and differ"""
    draw()
    drawn = numbers.to_numpy()
    assert drawn.min() >= 0 and drawn.max() < 1
    assert len(np.unique(drawn)) > 0.99 * N
    assert abs(drawn.mean() - 0.5) < 0.05


if __name__ == "__main__":
    cases.run(sys.modules[__name__])
