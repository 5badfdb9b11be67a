"""Several models as one graph."""
import numpy as np
import pytest

import cugrt
from test_onnx import linear

FIRST = b"""cugrt 1
func @main(%x: tensor<[n, 16], f32>) -> (tensor<[n, 16], f32>, tensor<[n], f32>)
    attributes {lower_bounds = {n = 1}, upper_bounds = {n = 32}} {
  %y = tanh(%x)
  %z = reduce_sum(%y) {axes = [1]}
  return %y, %z
}
"""
SECOND = b"""cugrt 1
func @main(%x: tensor<[m, 16], f32>, %k: tensor<[16], f32>) -> (tensor<[m, 16], f32>)
    attributes {lower_bounds = {m = 1}, upper_bounds = {m = 64}} {
  %y = mul(%x, %k)
  return %y
}
"""


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def test_two_models_are_one_graph(rng):
    module = cugrt.link({"a": FIRST, "b": SECOND}, connect={"b.x": "a.result0"})
    model = cugrt.load(module)
    assert [spec.name for spec in model.inputs] == ["a.x", "b.k"]
    assert [spec.shape for spec in model.outputs] == [("a.n",), ("a.n", 16)]
    k = rng.standard_normal(16, "float32")
    for rows in (5, 32):
        x = rng.standard_normal((rows, 16), "float32")
        sums, product = model.run({"a.x": x, "b.k": k})
        assert np.allclose(sums, np.tanh(x).sum(1), atol=1e-4) and np.allclose(product, np.tanh(x) * k, atol=1e-5)
    assert model.counters["regions_built"] >= 1 and model.counters["eager_steps"] == 0
    with pytest.raises(cugrt.Error, match="33"):
        model.run({"a.x": np.zeros((33, 16), "float32"), "b.k": k})  # the bounds are those of both


def classify(w):
    module = cugrt.Module()
    f = module.function("main", lower_bounds={"n": 1}, upper_bounds={"n": 8})
    x, weight = f.input("x", ("n", 4), "float32"), f.weight("w", (4, 4), "float32")
    f.output(f.relu(x @ weight), ("n", 4), "float32")
    return cugrt.Module.from_text(module.text, {"w": w})


def test_weights_go_along_and_equal_ones_are_kept_once(rng, tmp_path):
    w, v = (rng.standard_normal((4, 4), "float32") for _ in range(2))
    relu = lambda array: np.maximum(array, 0)
    module = cugrt.link({"a": classify(w), "b": classify(v), "c": classify(w.copy())},
                        connect={"b.x": "a.result0", "c.x": "b.result0"})
    assert "%a.w" in module.text and "%b.w" in module.text and "%c.w" not in module.text
    x = rng.standard_normal((3, 4), "float32")
    want = relu(relu(relu(x @ w) @ v) @ w)
    assert np.allclose(cugrt.load(module).run({"a.x": x}), want, atol=1e-5)
    cugrt.compile(module, tmp_path / "linked.pack", "compute_75", progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["linked.pack"]
    assert np.allclose(cugrt.load(tmp_path / "linked.pack").run({"a.x": x}), want, atol=1e-5)
    again = cugrt.link({"all": module, "d": classify(v)}, connect={"d.x": "all.result0"})
    assert np.allclose(cugrt.load(again).run({"all.a.x": x}), relu(want @ v), atol=1e-5)


def test_onnx_files_are_joined_by_their_own_names(rng):
    w, b = rng.standard_normal((64, 64), "float32") / 8, rng.standard_normal(64, "float32")
    module = cugrt.link({"p": linear(w, b), "q": linear(w, b)}, connect={"q.input:0": "p.out/y"})
    model = cugrt.load(module)
    assert [spec.name for spec in model.inputs] == ["p.input:0"] and [spec.name for spec in model.outputs] == ["q.out/y"]
    assert module.text.count("tensor<[64, 64], f32>") == 3  # a parameter of each part, and one of the whole
    x = rng.standard_normal((3, 64), "float32")
    layer = lambda array: np.maximum(array @ w + b, 0)
    assert np.allclose(model.run({"p.input:0": x}), layer(layer(x)), atol=1e-4)


@pytest.mark.parametrize("parts, connect, match", [
    ({"a": FIRST, "b": SECOND}, {"b.k": "a.result0"}, r"b\.k is f32\[16\], and a\.result0 is f32\[a\.n, 16\]"),
    ({"a": FIRST, "b": SECOND}, {"b.q": "a.result0"}, "no input 'q': it has 'x', 'k'"),
    ({"a": FIRST, "b": SECOND}, {"b.x": "a.result2"}, "no result 'result2'"),
    ({"a": FIRST, "b": SECOND}, {"x": "a.result0"}, "'x' is no PART.NAME"),
    ({"a": FIRST, "b": FIRST}, {"a.x": "b.result0", "b.x": "a.result0"}, "wait for results of one another"),
    ({}, {}, "parts are one model or more"), ({"a": b"GGUF" + bytes(64)}, {}, "a gguf file"), ({"a": FIRST}, {"a.x": 3}, "connect"),
    ([FIRST], {}, "parts is a dict"),
])
def test_what_cannot_be_linked_is_told(parts, connect, match):
    with pytest.raises(cugrt.Error, match=match):
        cugrt.link(parts, connect=connect)
