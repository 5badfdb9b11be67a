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


def test_what_is_refused_leaves_nothing():
    module = cugrt.Module()
    f, other = module.function(), module.function("other")
    a, theirs = f.input("a", (3,), "float32"), other.input("b", (3,), "float32")
    before = module.text
    refused = [
        (lambda: f.op("no op", a), "an op is named"), (lambda: f.op(5, a), "an op is named"), (lambda: f.relu(object()), "operand 0 of 'relu'"),
        (lambda: f.softmax(a, axis=object()), "axis of 'softmax'"), (lambda: f.softmax(a, axis=1 << 64), "axis of 'softmax'"),
        (lambda: f.softmax(a, **{"a b": 1}), "an attribute is named"), (lambda: f.cast(a, dtype="\0"), "dtype of 'cast'"),
        (lambda: f.op("relu", a, results="2"), "results is a whole number"), (lambda: f.relu(a, name=object()), "name of 'relu'"),
        (lambda: f.relu(theirs), "'b' is a value of another function, 'other'"), (lambda: f.relu([a, [theirs]]), "'b' is a value of another"),
        (lambda: a + theirs, "'b' is a value of another"), (lambda: f.output(theirs, (3,), "f32"), "'b' is a value of another"),
        (lambda: f.output("a", (3,), "f32"), "value is a value of the function, not of type str"),
        (lambda: f.output(a, 3, "f32"), "shape is a list of dimensions, not of type int"), (lambda: f.output(a, (3,), None), "dtype is a str"),
        (lambda: f.input("c", "nm", "f32"), "shape is a list of dimensions, not of type str"), (lambda: f.state("c", None, "f32"), "shape is"),
        (lambda: f.input("c", (1.5,), "f32"), "a dimension of shape is a whole number"), (lambda: f.input("c", (-1,), "f32"), "a dimension of shape"),
        (lambda: f.weight("c", ("n]",), "f32"), "a dimension of shape"), (lambda: f.weight("c", (3,), np.float32), "dtype is a str"),
        (lambda: f.input("c", (3,), "f99"), "no dtype 'f99'"), (lambda: f.input(5, (3,), "f32"), "a parameter is named"),
        (lambda: f.input("a", (3,), "f32"), "two values 'a'"), (lambda: f.constant([1.0]), "array is a NumPy array, not of type list"),
        (lambda: f.constant(np.array(["a"])), "no dtype 'str"), (lambda: f.constant(np.array([None])), "no dtype 'object'"),
        (lambda: module.kernel(b"kernel"), "text is a str"), (lambda: module.function(5), "a function is named"),
        (lambda: module.function("g", upper_bounds=5), "upper_bounds is a dict"), (lambda: module.function("g", upper_bounds={"n": "8"}), "upper_bounds of 'n'"),
        (lambda: module.function("g", lower_bounds={"a b": 8}), "a symbol of lower_bounds is named"),
        (lambda: module.function("g", lower_bounds={5: 8}), "a name in lower_bounds is a str"),
        (lambda: cugrt.dtype(5), "dtype is a str"),
    ]
    for wrong, said in refused:
        with pytest.raises(cugrt.Error, match=said):
            wrong()
        assert module.text == before and f._names == {"a"}
    f.output(f.relu(f.input("c", (3,), "float32")), (3,), "float32")
    other.output(theirs, (3,), "float32")
    assert cugrt.load(module).run({"a": np.ones(3, "float32"), "c": np.full(3, -1, "float32")})[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", [">f4", "<f4", ">i2", "float64", ">u8", "bool"])
def test_constants_of_any_layout_have_their_values(kind):
    array = np.arange(12).reshape(3, 4).astype(kind)
    module = cugrt.Module()
    f = module.function()
    f.input("x", (1,), "f32")
    for value in (array, array.T, array[::2, ::-1], array[1:2, 0].reshape(())):
        f.output(f.constant(value), value.shape, value.dtype.name)
    for got, value in zip(cugrt.load(module)(x=np.zeros(1, "float32")), (array, array.T, array[::2, ::-1], array[1, 0]), strict=True):
        assert np.array_equal(got, value)


def test_floats_of_numpy_are_floats():
    f = cugrt.Module().function()
    f.op("any", f.input("x", (1,), "f32"), np.float64(0.1), low=np.float64(2))
    assert "= any(%x, 0.1) {low = 2.0}" in f._text()
