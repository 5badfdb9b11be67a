"""Modules that are built in Python."""
import numpy as np
import pytest

import cugrt


def classifier():
    module = cugrt.Module()
    f = module.function("main", lower_bounds={"n": 1}, upper_bounds={"n": 32})
    x, w = f.input("x", ("n", 6), "float32"), f.weight("w", (6, 4), "float32")
    h = f.relu(x @ w + f.constant(np.arange(4, dtype="float32")))
    f.output(f.softmax(h, axis=-1), ("n", 4), "float32")
    return module


def test_a_built_module_is_loaded_and_right(x, w, tmp_path):
    h = np.maximum(x @ w + np.arange(4), 0)
    want = np.exp(h) / np.exp(h).sum(-1, keepdims=True)
    model = cugrt.load(classifier(), weights={"w": w})
    assert np.allclose(model(x=x), want, atol=1e-6)
    (tmp_path / "m.cugrt").write_text(classifier().text)
    assert np.array_equal(cugrt.load(tmp_path / "m.cugrt", weights={"w": w})(x=x), model(x=x))
    cugrt.compile(classifier(), tmp_path / "m.pack", "compute_75", progress=False)
    assert np.array_equal(cugrt.load(tmp_path / "m.pack", weights={"w": w})(x=x), model(x=x))


def test_several_results_dtypes_and_arithmetic():
    module = cugrt.Module()
    f = module.function()
    a, b = f.input("a", ("n",), "float32"), f.input("b", ("n",), "float32")
    low, high = a - b, -(a * b) / b
    f.output(low, ("n",), "f32")
    f.output(f.cast(high, dtype=cugrt.dtype("float16")), ("n",), "float16")
    x, y = np.array([1, 2, 4], "float32"), np.array([2, 4, 8], "float32")
    first, second = cugrt.load(module)(a=x, b=y)
    assert np.array_equal(first, x - y) and second.dtype == np.float16 and np.array_equal(second, -x)


def test_mistakes_are_told(w):
    module = classifier()
    f = module.function("other")
    a = f.input("a", (3,), "float32")
    f.output(f.no_such_op(a), (3,), "float32")
    with pytest.raises(cugrt.Error, match="no_such_op") as caught:
        cugrt.load(module, weights={"w": w})
    assert caught.value.place.startswith("module:")
    for wrong in (lambda: f.input("a", (3,), "float32"), lambda: f.input("%", (3,), "float32"), lambda: f.input("b", (3,), "f99"),
                  lambda: f.relu(object()), lambda: module.function("1")):
        with pytest.raises(cugrt.Error):
            wrong()
