"""Ops of Relax that become several of the table's, beside NumPy; and that all that TVM legalizes is taken or named."""

import importlib.metadata
import importlib.util
import os
import re

import numpy as np
import pytest

import cugrt
from test_relax import CUBE, X, convolved, floats, in_tvm, module_of, pooled, run, tensors

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tvm") is None, reason="apache-tvm is not installed (the extra cugrt[relax])"
)

TVM = importlib.metadata.version("apache-tvm") if importlib.util.find_spec("tvm") else ""
ANGLES = np.array([[1, -1, 0, 0, 2, -3], [0.5, 0.5, -0.5, -0.5, 0, 7]], "float32")
SIDES = np.array([[0, 0, 1, -1, 3, -4], [2, -2, 2, -2, 0, -1]], "float32")
VOLUME = floats(2, 3, 4, 4, 6)
LABELS = np.array([[2, 0, 1, 2], [1, 1, -100, 0]], "int64")
EDGES = np.array([-1, 0, 0.25, 1], "float32")


def windows(x, size, kind):
    """Whole windows over the last three dimensions."""
    n, c, d, h, w = x.shape
    a, b, e = size
    return kind(x.reshape(n, c, d // a, a, h // b, b, w // e, e), axis=(3, 5, 7))


def padded_mean(x):
    """Windows of 3 with a stride of 2 and a padding of 1, over elements that are there."""
    made = np.zeros((*x.shape[:2], 2, 2, 3))
    for i, j, k in np.ndindex(2, 2, 3):
        at = [slice(max(2 * p - 1, 0), 2 * p + 2) for p in (i, j, k)]
        made[:, :, i, j, k] = x[:, :, at[0], at[1], at[2]].mean((2, 3, 4))
    return made


def lower_median(x):
    at = np.argsort(x, 1, kind="stable")[:, (x.shape[1] - 1) // 2][:, None]
    return np.take_along_axis(x, at, 1)[:, 0], at[:, 0]


def grid(theta, align):
    h, w = 3, 4
    ys, xs = (np.linspace(-1, 1, n) if align else (2 * np.arange(n) + 1) / n - 1 for n in (h, w))
    points = np.stack([np.tile(xs, h), np.repeat(ys, w), np.ones(h * w)])
    return (theta @ points).reshape(-1, 2, h, w)


def loss(x, labels, weights, reduction):
    kept = labels != -100
    at = np.where(kept, labels, 0)
    w = np.where(kept, weights[at], 0)
    made = -np.take_along_axis(x, at[:, None], 1)[:, 0] * w
    return {"none": made, "sum": made.sum(), "mean": made.sum() / w.sum()}[reduction]


def doubled(x):
    """Twice as large by linear interpolation, by half pixels, in all dimensions but two."""
    for axis in range(2, x.ndim):
        n = x.shape[axis]
        at = np.clip((np.arange(2 * n) + 0.5) / 2 - 0.5, 0, n - 1)
        low = np.floor(at).astype(int)
        shape = [-1 if i == axis else 1 for i in range(x.ndim)]
        part = (at - low).reshape(shape)
        x = x.take(low, axis) * (1 - part) + x.take(np.minimum(low + 1, n - 1), axis) * part
    return x


def put(x, rows, columns, values, add):
    made = x.copy()
    if add:
        np.add.at(made, (rows, columns), values)
    else:
        made[rows, columns] = values
    return made


def reversed_rows(x, lengths):
    made = x.copy()
    for row, n in zip(made, lengths):
        row[:n] = row[:n][::-1].copy()
    return made


def scattered(x, part):
    made = x.copy()
    made[:, 1:6:2] = part
    return made


def int32(*values):
    return np.array(values, "int32")


CASES = {
    "atan2": (lambda R, y, x: R.atan2(y, x), [ANGLES, SIDES], np.arctan2),
    "cumprod": (lambda R, x: R.cumprod(x, 1), [CUBE], lambda x: x.cumprod(1)),
    "cumprod before": (
        lambda R, x: R.cumprod(x, -1, exclusive=True),
        [X],
        lambda x: np.concatenate([np.ones((4, 1), "f4"), x.cumprod(1)[:, :-1]], 1),
    ),
    "cumprod of all": (lambda R, x: R.cumprod(x), [X], lambda x: x.cumprod()),
    "quantize": (
        lambda R, x, s, z: R.quantize(x, s, z, 1, "int8"),
        [X * 40, np.array([0.5, 0.25, 1, 2, 0.1, 0.3], "float32"), np.array([0, 3, -5, 7, 0, 100], "int8")],
        lambda x, s, z: np.clip(np.round(x / s) + z, -128, 127).astype("int8"),
    ),
    "dequantize": (
        lambda R, x, s, z: R.dequantize(x, s, z, 0),
        [np.array([[-128, 127], [5, -7]], "int8"), np.array([0.5, 0.25], "float32"), np.array([3, -5], "int8")],
        lambda x, s, z: (x.astype("i4") - z[:, None]) * s[:, None],
    ),
    "einsum of two": (
        lambda R, a, b: R.einsum((a, b), "bij,bkj->bik"),
        [CUBE, floats(2, 5, 4)],
        lambda a, b: np.einsum("bij,bkj->bik", a, b),
    ),
    "einsum of three": (
        lambda R, a, b, c: R.einsum((a, b, c), "ij,jk,lk->li"),
        [floats(2, 3), floats(3, 4), floats(5, 4)],
        lambda a, b, c: np.einsum("ij,jk,lk->li", a, b, c),
    ),
    "einsum of one": (lambda R, a: R.einsum((a,), "ijk->ki"), [CUBE], lambda a: np.einsum("ijk->ki", a)),
    "einsum outer": (lambda R, a, b: R.einsum((a, b), "i,j->ji"), [X[0], X[1]], lambda a, b: np.outer(b, a)),
    "eye_like": (lambda R, x: R.add(x, R.eye_like(x, 1)), [X], lambda x: x + np.eye(4, 6, 1)),
    "hamming_window": (
        lambda R, x: R.add(x, R.hamming_window(6, True, 0.54, 0.46, "float32")),
        [X],
        lambda x: x + 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(6) / 6),
    ),
    "affine_grid": (lambda R, t: R.image.affine_grid(t, (3, 4)), [floats(2, 2, 3)], lambda t: grid(t, True)),
    "affine_grid of centers": (
        lambda R, t: R.image.affine_grid(t, (3, 4), align_corners=False),
        [floats(2, 2, 3)],
        lambda t: grid(t, False),
    ),
    "index_put": (
        lambda R, x, i, j, v: R.index_put(x, (i, j), v),
        [X, np.array([[0], [-1]], "int64"), np.array([1, 5, 2], "int64"), floats(2, 3)],
        lambda x, i, j, v: put(x, i, j, v, False),
    ),
    "index_put that adds": (
        lambda R, x, i, j, v: R.index_put(x, (i, j), v, accumulate=True),
        [X, np.array([1, 1, 2], "int64"), np.array([4, 4, 0], "int64"), floats(3)],
        lambda x, i, j, v: put(x, i, j, v, True),
    ),
    "median": (lambda R, x: R.median(x, 1), [X], lower_median),
    "median of all": (lambda R, x: R.median(x), [X], lambda x: np.sort(x, None)[11]),
    "meshgrid": (
        lambda R, a, b: R.meshgrid((a, b), "ij"),
        [X[0], X[1, :3]],
        lambda a, b: tuple(np.meshgrid(a, b, indexing="ij")),
    ),
    "reverse_sequence": (
        lambda R, x, n: R.reverse_sequence(x, n, 1, 0),
        [X, int32(3, 0, 6, 1)],
        reversed_rows,
    ),
    "slice_scatter": (lambda R, x, p: R.slice_scatter(x, p, 1, 6, 2, 1), [X, floats(4, 3)], scattered),
    "bucketize": (
        lambda R, x, b: R.bucketize(x, b),
        [np.array([[-2, -1, 0], [0.25, 0.3, 9]], "float32"), EDGES],
        lambda x, b: np.searchsorted(b, x, "left"),
    ),
    "bucketize to the right": (
        lambda R, x, b: R.bucketize(x, b, out_int32=True, right=True),
        [np.array([[-2, -1, 0], [0.25, 0.3, 9]], "float32"), EDGES],
        lambda x, b: np.searchsorted(b, x, "right"),
    ),
    "resize2d": (lambda R, x: R.image.resize2d(x, (8, 12), layout="NCHW"), [VOLUME[0]], doubled),
    "resize3d": (lambda R, x: R.image.resize3d(x, (8, 8, 12)), [VOLUME], doubled),
    "max_pool3d": (
        lambda R, x: R.nn.max_pool3d(x, (2, 2, 3), (2, 2, 3)),
        [VOLUME],
        lambda x: windows(x, (2, 2, 3), np.max),
    ),
    "avg_pool3d": (
        lambda R, x: R.nn.avg_pool3d(x, (3, 3, 3), (2, 2, 2), (1, 1, 1), count_include_pad=False),
        [VOLUME],
        padded_mean,
    ),
    "adaptive_avg_pool3d": (
        lambda R, x: R.nn.adaptive_avg_pool3d(x, (2, 1, 3)),
        [VOLUME],
        lambda x: windows(x, (2, 4, 2), np.mean),
    ),
    "cross_entropy": (
        lambda R, a, b: R.nn.cross_entropy_with_logits(a, b),
        [X, floats(4, 6)],
        lambda a, b: -(a * b).sum() / 4,
    ),
    "conv2d of another layout": (
        lambda R, x, w: R.nn.conv2d(
            x, w, 2, 1, groups=2, data_layout="NHWC", kernel_layout="HWIO", out_layout="CHWN"
        ),
        [floats(1, 6, 6, 4), floats(3, 3, 2, 6)],
        lambda x, w: convolved(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), 2, 2, 1).transpose(1, 2, 3, 0),
    ),
    "conv2d_transpose of another layout": (
        lambda R, x, w: R.nn.conv2d_transpose(x, w, 2, data_layout="NHWC", kernel_layout="OIHW"),
        [floats(1, 2, 3, 2), floats(4, 2, 2, 2)],
        # Windows of as many elements as the stride do not overlap.
        lambda x, w: np.einsum("nhwi,oiab->nhawbo", x, w).reshape(1, 4, 6, 4),
    ),
    "max_pool2d of another layout": (
        lambda R, x: R.nn.max_pool2d(x, 2, 2, layout="NHWC"),
        [floats(1, 6, 6, 4)],
        lambda x: pooled(x.transpose(0, 3, 1, 2), 2, 2, np.max).transpose(0, 2, 3, 1),
    ),
    "adaptive_avg_pool1d of another layout": (
        lambda R, x: R.nn.adaptive_avg_pool1d(x, 1, "NWC"),
        [CUBE],
        lambda x: x.mean(1, keepdims=True),
    ),
    # Corners of the image, and its middle.
    "grid_sample": (
        lambda R, x, g: R.image.grid_sample(x, g, "bilinear", "NCHW", "zeros", True),
        [floats(1, 3, 2, 2), np.array([-1, 1, -1, 0, -1, -1, 1, 0], "float32").reshape(1, 2, 2, 2)],
        lambda x, g: np.stack([x[..., 0, 0], x[..., 0, 1], x[..., 1, 0], x.mean((2, 3))], -1).reshape(1, 3, 2, 2),
    ),
    "resize2d of another layout": (
        lambda R, x: R.image.resize2d(x, (6, 4), layout="NHWC", method="nearest_neighbor"),
        [floats(1, 3, 2, 2)],
        lambda x: x.repeat(2, 1).repeat(2, 2),
    ),
    "nll_loss": (
        lambda R, x, t, w: R.nn.nll_loss(x, t, w, "mean"),
        [floats(2, 3, 4), LABELS, np.array([0.5, 2, 1], "float32")],
        lambda x, t, w: loss(x, t, w, "mean"),
    ),
    "nll_loss of each": (
        lambda R, x, t, w: R.nn.nll_loss(x, t, w, "none"),
        [floats(2, 3, 4), LABELS, np.array([0.5, 2, 1], "float32")],
        lambda x, t, w: loss(x, t, w, "none"),
    ),
}


NEWER = {"reverse_sequence", "affine_grid of centers"} if TVM.startswith("0.25.") else set()  # than that version


@pytest.mark.parametrize("name", [name for name in CASES if name not in NEWER])
def test_op(name):
    from tvm.script import relax

    make, given, expected = CASES[name]
    module = module_of(lambda *params: make(relax, *params), tensors(given))
    wanted = expected(*given)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    out = run(cugrt.from_relax(module), *given)
    assert len(out) == len(wanted)
    for a, b in zip(out, wanted):
        np.testing.assert_allclose(np.asarray(a), b, rtol=3e-5, atol=3e-5)
        assert np.asarray(a).shape == np.shape(b)


@pytest.mark.parametrize("name", ["resize2d", "resize3d", "resize2d of another layout", "grid_sample"])
def test_image_goes_out(name):
    from tvm.script import relax

    make, given, expected = CASES[name]
    module = cugrt.from_relax(module_of(lambda *params: make(relax, *params), tensors(given)))
    made, = in_tvm(cugrt.to_relax(module), *given)
    np.testing.assert_allclose(made, expected(*given), rtol=3e-5, atol=3e-5)


def test_documented_ops():
    """The page's list is the table; what of LegalizeOps is in neither of its lists does not exist."""
    from cugrt.relax import builtins, ops
    from tvm.ir import Op

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "relax.md")
    with open(path, encoding="utf-8") as file:
        section = file.read().partition("### Ops")[2].partition("\n## ")[0]
    taken, _, refused = section.partition("these are not")
    listed = [set(" ".join(re.findall("`([^`]+)`", part.replace("`relax.`", ""))).split()) for part in (taken, refused)]
    assert listed[0] == set(ops.TABLE)
    refused = {name for name in listed[1] if "." in name or "_" in name} - {"call_tir"}
    names = [str(name) for name in Op.list_op_names() if str(name).startswith("relax.")]
    legal = {name.removeprefix("relax.") for name in names if Op.get(name).get_attr("FLegalize") is not None}
    assert legal - set(ops.TABLE) - set(builtins.TABLE) == refused
