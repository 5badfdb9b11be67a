"""tinygrad: kernels of its own code generators, as CUDA C through NVRTC and as PTX that it writes.

Runs once with each: the environment says which (foreign.py). numpy is the oracle.
"""
import sys

import numpy as np
from tinygrad import Context, Device, Tensor, TinyJit, dtypes, nn

import cases

GENERATOR = type(Device[Device.DEFAULT].renderer).__name__
RANDOM = np.random.default_rng(23)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def case_device():
    """the device is CUDA, with one of the generators for it"""
    assert Device.DEFAULT.startswith("CUDA"), Device.DEFAULT
    assert GENERATOR in ("CUDARenderer", "PTXRenderer"), GENERATOR


def case_elementwise():
    """elementwise work fuses to numpy's numbers"""
    x, y = floats(37, 53), floats(37, 53)
    got = ((Tensor(x) * 2 + Tensor(y)).relu().sqrt() - Tensor(x).exp()).numpy()
    assert np.allclose(got, np.sqrt(np.maximum(x * 2 + y, 0)) - np.exp(x), rtol=1e-4, atol=1e-5)


def case_matmul():
    """matrix products of float32, float16 and int32"""
    x, y = floats(65, 48), floats(48, 33)
    assert np.allclose((Tensor(x) @ Tensor(y)).numpy(), x @ y, rtol=1e-4, atol=1e-4)
    half = (Tensor(x).half() @ Tensor(y).half()).numpy()
    assert half.dtype == np.float16
    assert np.allclose(half, x.astype(np.float16).astype(np.float32) @ y.astype(np.float16), atol=0.1)
    a, b = (RANDOM.integers(-9, 9, (20, 20)).astype(np.int32) for _ in range(2))
    assert np.array_equal((Tensor(a) @ Tensor(b)).numpy(), a @ b)


def case_reductions():
    """sums, maxima, indices of maxima and softmax over either axis"""
    x = floats(70, 45)
    t = Tensor(x)
    for axis in (0, 1):
        assert np.allclose(t.sum(axis=axis).numpy(), x.sum(axis=axis), rtol=1e-4, atol=1e-4)
        assert np.array_equal(t.max(axis=axis).numpy(), x.max(axis=axis))
        assert np.array_equal(t.argmax(axis=axis).numpy(), x.argmax(axis=axis))
    assert np.allclose(t.softmax(axis=1).numpy(), softmax(x), rtol=1e-4, atol=1e-6)


def case_indexing():
    """gathers, slices, padding and transposes"""
    x = floats(30, 21)
    index = RANDOM.integers(0, 30, 12)
    assert np.array_equal(Tensor(x)[Tensor(index.astype(np.int32))].numpy(), x[index])
    assert np.array_equal(Tensor(x)[3:20:2, ::-1].numpy(), x[3:20:2, ::-1])
    assert np.array_equal(Tensor(x).pad(((1, 2), (0, 3))).T.contiguous().numpy(),
                          np.pad(x, ((1, 2), (0, 3))).T)


def case_casts():
    """casts between the integer and float types"""
    x = (floats(200) * 50).astype(np.float32)
    for to, like in ((dtypes.int32, np.int32), (dtypes.int8, np.int8), (dtypes.half, np.float16),
                     (dtypes.int64, np.int64), (dtypes.double, np.float64)):
        clipped = np.clip(x, -100, 100)
        assert np.array_equal(Tensor(clipped).cast(to).numpy(), clipped.astype(like)), like


def case_jit():
    """a function that is captured into a graph of launches runs again on other inputs"""
    weights = floats(20, 16)
    w = Tensor(weights).realize()

    @TinyJit
    def step(x):
        return ((x @ w).relu() @ w.T).softmax().realize()

    for _ in range(5):
        x = floats(10, 20)
        expected = softmax(np.maximum(x @ weights, 0) @ weights.T)
        assert np.allclose(step(Tensor(x).realize()).numpy(), expected, rtol=1e-3, atol=1e-5)


def case_training():
    """gradients and an optimiser bring a regression's loss down"""
    x, truth = floats(64, 8), floats(8, 1)
    layer = nn.Linear(8, 1)
    optimizer = nn.optim.SGD(nn.state.get_parameters(layer), lr=0.1)
    losses = []
    with Context(TRAINING=1):
        for _ in range(12):
            optimizer.zero_grad()
            loss = ((layer(Tensor(x)) - Tensor(x @ truth)) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0] / 4, losses


if __name__ == "__main__":
    cases.run(sys.modules[__name__], f"tinygrad, {GENERATOR}: ")
