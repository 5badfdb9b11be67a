"""Dr.Jit: arrays whose operations become PTX that it writes itself, beside its own compiled kernels for scans,
reductions and sorting. numpy is the oracle."""
import sys

import drjit as dr
import numpy as np
from drjit.cuda import Array3f, Float, Float16, Float64, Int, TensorXf, UInt, UInt64
from drjit.cuda.ad import Float as Differentiable

import cases

RANDOM = np.random.default_rng(17)


def near(found, expected, relative=1e-5):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=relative, atol=1e-6)


def case_elementwise():
    """Dr.Jit: elementwise functions in one kernel"""
    x = RANDOM.uniform(0.1, 3, 10001).astype(np.float32)
    y = dr.sin(Float(x)) * 2 + dr.exp(-Float(x)) + dr.log(Float(x)) / dr.sqrt(Float(x))
    near(y, np.sin(x) * 2 + np.exp(-x) + np.log(x) / np.sqrt(x), 2e-5)


def case_dtypes():
    """Dr.Jit: halves, doubles and integers of 32 and 64 bits"""
    x = RANDOM.integers(-1000, 1000, 777)
    near(dr.sqrt(dr.abs(Float64(x))), np.sqrt(np.abs(x).astype(np.float64)), 1e-15)
    near(Float16(x.astype(np.float16)) * Float16(0.5), x * 0.5, 1e-3)
    found = (Int(x.astype(np.int32)) * 3 - 7) ^ 21
    np.testing.assert_array_equal(np.asarray(found), (x.astype(np.int32) * 3 - 7) ^ 21)
    wide = np.abs(x).astype(np.uint64) << 33
    np.testing.assert_array_equal(np.asarray(UInt64(wide) // 5), wide // 5)


def case_reductions():
    """Dr.Jit: sums, products, extremes, of blocks too"""
    x = RANDOM.uniform(-1, 1, 5000).astype(np.float32)
    near(dr.sum(Float(x)), [x.astype(np.float64).sum()], 1e-4)
    near(dr.max(Float(x)), [x.max()])
    near(dr.min(Float(x)), [x.min()])
    near(dr.block_sum(Float(x), 50), x.reshape(100, 50).sum(1), 1e-4)
    assert bool(dr.all(Float(x) < 1)) and not bool(dr.any(Float(x) > 1))


def case_scans():
    """Dr.Jit: prefix sums, and what they select"""
    x = RANDOM.integers(0, 9, 20000).astype(np.uint32)
    np.testing.assert_array_equal(np.asarray(dr.cumsum(UInt(x))), np.cumsum(x))
    np.testing.assert_array_equal(np.asarray(dr.compress(UInt(x) == 3)), np.flatnonzero(x == 3))


def case_gather_scatter():
    """Dr.Jit: gathers, and scatters that add by atomics"""
    x = RANDOM.uniform(size=1000).astype(np.float32)
    at = RANDOM.integers(0, 1000, 3000).astype(np.uint32)
    near(dr.gather(Float, Float(x), UInt(at)), x[at])
    total = dr.zeros(Float, 10)
    dr.scatter_reduce(dr.ReduceOp.Add, total, dr.ones(Float, 3000), UInt(at) % 10)
    np.testing.assert_array_equal(np.asarray(total), np.bincount(at % 10, minlength=10))


def case_loop():
    """Dr.Jit: a loop whose trips differ by lane"""
    trips = RANDOM.integers(0, 40, 500).astype(np.uint32)
    i, total = dr.while_loop((UInt(0), Float(0)), lambda i, total: i < UInt(trips),
                             lambda i, total: (i + 1, total + dr.sqrt(Float(i))))
    near(total, [np.sqrt(np.arange(n)).sum() for n in trips])


def case_vectors():
    """Dr.Jit: arrays of vectors"""
    p, q = RANDOM.normal(size=(2, 3, 400)).astype(np.float32)
    near(dr.dot(Array3f(p), Array3f(q)), (p * q).sum(0), 1e-4)
    near(np.asarray(dr.cross(Array3f(p), Array3f(q))), np.cross(p, q, axis=0), 1e-3)


def case_tensor():
    """Dr.Jit: a tensor that is sliced and reduced along an axis"""
    x = RANDOM.uniform(size=(6, 7, 8)).astype(np.float32)
    near(dr.sum(TensorXf(x)[1:5, :, 3], axis=1), x[1:5, :, 3].sum(1), 1e-4)


def case_gradient():
    """Dr.Jit: a gradient backward"""
    x = np.array([1, 2, 3], np.float32)
    z = Differentiable(x)
    dr.enable_grad(z)
    dr.backward(dr.sum(z * z * dr.sin(z)))
    near(z.grad, 2 * x * np.sin(x) + x * x * np.cos(x))


if __name__ == "__main__":
    cases.run(sys.modules[__name__])
