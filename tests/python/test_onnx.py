"""ONNX files, made here byte by byte, and what ONNX Runtime says of them."""
import struct
import threading

import numpy as np
import onnxruntime
import pytest

import cugrt
from conftest import ON_HOST


def field(number, value):
    """A field of a protobuf message: a number, or bytes with their length."""
    def varint(n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def value_info(name, dims):
    shape = b"".join(field(1, field(1, dim) if isinstance(dim, int) else field(2, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


def linear(w, b):
    """relu(x @ w + b), with names as exporters make them."""
    tensor = lambda name, a: b"".join(field(1, dim) for dim in a.shape) + field(2, 1) + field(8, name) + field(9, a.tobytes())
    node = lambda op, inputs, output: b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op)
    graph = (field(1, node("MatMul", ["input:0", "w"], "h")) + field(1, node("Add", ["h", "b"], "s")) + field(1, node("Relu", ["s"], "out/y")) +
             field(2, "g") + field(5, tensor("w", w)) + field(5, tensor("b", b)) +
             field(11, value_info("input:0", ["batch.size", w.shape[0]])) + field(12, value_info("out/y", ["batch.size", w.shape[1]])))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


@pytest.fixture(scope="module")
def model_bytes():
    return linear(np.arange(24, dtype="float32").reshape(6, 4) / 8 - 1, np.arange(4, dtype="float32"))


def test_results_are_those_of_onnx_runtime(model_bytes, x, tmp_path):
    (tmp_path / "m.onnx").write_bytes(model_bytes)
    want = onnxruntime.InferenceSession(model_bytes, providers=["CPUExecutionProvider"]).run(None, {"input:0": x})[0]
    for source in (model_bytes, tmp_path / "m.onnx"):
        model = cugrt.load(source)
        assert [spec.name for spec in model.inputs] == ["input:0"] and model.outputs[0].name == "out/y"
        assert np.array_equal(model(**{"input:0": x}), want)


def test_dimensions_are_named_bounded_and_fixed(model_bytes, x):
    model = cugrt.load(model_bytes, dims={"batch.size": "n"}, bounds={"n": (1, 4)})
    assert model.inputs[0].shape == ("n", 6)
    with pytest.raises(cugrt.Error, match="at most 4"):
        model(**{"input:0": x})
    assert cugrt.load(model_bytes, dims={"batch.size": 8}).inputs[0].shape == (8, 6)
    for bounds, said in (({"n": 5}, "'n' are two whole numbers"), ({"n": (1, "a")}, "a bound of 'n' is a whole number")):
        with pytest.raises(cugrt.Error, match=said):
            cugrt.load(model_bytes, bounds=bounds)


def test_a_list_of_integers_that_decides_a_shape_is_a_shape():
    node = field(1, "x") + field(1, "sizes") + field(2, "y") + field(4, "Reshape")
    sizes = field(1, "sizes") + field(2, field(1, field(1, 7) + field(2, field(1, field(1, 2)))))
    graph = (field(1, node) + field(2, "g") + field(11, value_info("x", [12])) + field(11, sizes) +
             field(12, value_info("y", ["a", "b"])))
    model = cugrt.load(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)))
    assert model.inputs[1].dtype == "shape"
    x = np.arange(12, dtype="float32")
    for given in ((3, 4), np.array([2, 6]), [12, 1]):
        assert np.array_equal(model(x=x, sizes=given), x.reshape(given))
    with pytest.raises(cugrt.Error, match="'sizes' is of type int where a tuple of at most 8 ints"):
        model(x=x, sizes=5)
    with pytest.raises(cugrt.Error, match="sizes"):
        model(x=x, sizes=(5, 5))


def test_frames_of_bytes_become_images_in_the_graph(tmp_path):
    node = field(1, "image") + field(2, "y") + field(4, "Relu")
    graph = (field(1, node) + field(2, "g") + field(11, value_info("image", [1, 3, 4, 6])) +
             field(12, value_info("y", [1, 3, 4, 6])))
    model_bytes = field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))
    frame = np.random.default_rng(1).integers(0, 256, (1, 4, 6, 3), "uint8")
    mean, std = np.array([0.25, 0.5, 0.75]), np.array([0.5, 1, 2])
    want = np.maximum((frame / 255 - mean) / std, 0).transpose(0, 3, 1, 2)  # of the model's size: nothing is resized
    given = {"image": "hwc,mean=0.25:0.5:0.75,std=0.5:1:2"}
    y = cugrt.load(model_bytes, preprocess=given)(image=frame)
    assert y.dtype == np.float32 and np.allclose(y, want, atol=1e-6)
    (tmp_path / "m.onnx").write_bytes(model_bytes)
    cugrt.compile(tmp_path / "m.onnx", tmp_path / "m.pack", ["compute_75"], preprocess=given, progress=False)
    pack = cugrt.load(tmp_path / "m.pack")
    assert np.array_equal(pack(**{pack.inputs[0].name: frame}), y)
    with pytest.raises(cugrt.Error, match="are of ONNX files"):
        cugrt.load(b"cugrt 1\n", preprocess=given)


def test_a_pack_of_an_onnx_file_has_its_weights(model_bytes, x, tmp_path):
    (tmp_path / "m.onnx").write_bytes(model_bytes)
    cugrt.compile(tmp_path / "m.onnx", tmp_path / "m.pack", ["compute_75"], progress=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.pack"]
    y, = cugrt.load(tmp_path / "m.pack").run({cugrt.load(tmp_path / "m.pack").inputs[0].name: x})
    assert np.array_equal(y, cugrt.load(model_bytes)(**{"input:0": x}))


def found(dims):
    """y = NonZero(x), for which the device decides how many there are; z = relu(x)."""
    node = lambda op, x, y: field(1, field(1, x) + field(2, y) + field(4, op))
    y = field(1, "y") + field(2, field(1, field(1, 7) + field(2, b"")))
    graph = (node("NonZero", "x", "y") + node("Relu", "x", "z") + field(2, "g") + field(11, value_info("x", dims)) +
             field(12, y) + field(12, value_info("z", dims)))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def test_outputs_whose_size_the_data_decide_have_it(tmp_path):
    (tmp_path / "m.onnx").write_bytes(found(["h", "w"]))
    cugrt.compile(tmp_path / "m.onnx", tmp_path / "m.pack", ["compute_75"], progress=False)
    for model in (cugrt.load(found(["h", "w"])), cugrt.load(tmp_path / "m.pack")):
        name = model.inputs[0].name
        assert len(model.outputs) == 2, "the count is none"
        assert model.outputs[0].shape == (2, "<= h*w") and model.outputs[1].shape == ("h", "w")
        for x in (np.eye(3, 4), np.zeros((2, 2)), np.ones((3, 5)), np.arange(12).reshape(3, 4) % 5):
            x = x.astype("float32")
            y, z = model(**{name: x})
            assert np.array_equal(y, np.array(np.nonzero(x))) and np.array_equal(z, x)
        counters = model.counters
        assert counters["runs"] == 4 == sum(counters[f"regions_{way}"] for way in ("built", "hit", "patched"))


def test_a_device_array_whose_size_the_data_decide_is_waited_for_when_it_is_asked():
    model = cugrt.load(found([3, 4]))
    for value in (np.eye(3, 4), np.zeros((3, 4)), np.ones((3, 4))):
        x = model.to_device(value.astype("float32"))
        y, z = model.run({"x": x}, device=True)
        want = np.array(np.nonzero(value))
        assert y.dtype == "int64" and z.shape == (3, 4)
        assert y.shape == want.shape and y.nbytes == want.nbytes and f"{list(want.shape)}" in repr(y)
        assert np.array_equal(y.numpy(), want)
        fresh, _ = model.run({"x": x}, device=True)
        assert np.array_equal(np.from_dlpack(fresh) if ON_HOST and want.size else np.asarray(fresh), want)
    y = model.run({"x": x}, device=True)[0]
    shapes = []
    threads = [threading.Thread(target=lambda: shapes.append(y.shape)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shapes == [(2, 12)] * 8
    again = cugrt.load(b"cugrt 1\nfunc @main(%i: tensor<[2, n], i64>) -> (tensor<[2, n], i64>) attributes {upper_bounds = {n = 12}} {\n"
                       b"  %r = neg(%i)\n  return %r\n}\n")
    assert np.array_equal(again(i=model.run({"x": value.astype("float32")}, device=True)[0]), -want), "bound with its own shape"
    with pytest.raises(cugrt.Error, match="output 'y' has a size that the data decide"):
        model.run({"x": value.astype("float32")}, out={"y": np.zeros((2, 12), "int64")})


@pytest.mark.parametrize("part", range(4))
def test_names_that_are_no_utf_8_are_told(part):
    """Of an input, an output and an op; a dimension's becomes a symbol."""
    x, y, op, n = [b"\xffa" if number == part else name for number, name in enumerate((b"x", b"y", b"Relu", b"n"))]
    graph = (field(1, field(1, x) + field(2, y) + field(4, op)) + field(2, "g") + field(11, value_info(x, [n])) + field(12, value_info(y, [n])))
    model = field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))
    if part == 3:
        assert cugrt.load(model).inputs[0].shape == ("_a",)
        return
    with pytest.raises(cugrt.Error, match=r"\\xffa") as caught:
        cugrt.load(model)
    assert caught.value.code == cugrt.Code.UNSUPPORTED


def test_what_cannot_be_imported_is_named(tmp_path):
    node = field(1, "x") + field(2, "y") + field(4, "NoSuchOp")
    graph = field(1, node) + field(2, "g") + field(11, value_info("x", [1])) + field(12, value_info("y", [1]))
    with pytest.raises(cugrt.Error, match="NoSuchOp"):
        cugrt.load(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)))
    with pytest.raises(cugrt.Error):
        cugrt.load(struct.pack("<B", 8) + b"\x08" + bytes(40))
