"""The way back to ONNX: what `cugrt plan --onnx` writes gives on ONNX Runtime what the module gives here."""
import os
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

import cugrt
import test_onnx

TOOL = os.path.join(os.path.dirname(sys.executable), "cugrt")

# Bindings over %x: [2, 4, 6, 6], %y: [n, 6], %z: [6, 4], %i: i32 [n], %b: bool [n, 6]; the results' types; their names.
CASES = {
    "unary": ("  %a = exp(%y)\n  %c = tanh(%a)\n  %d = abs(%c)\n  %e = sqrt(%d)\n  %f = rsqrt(%a)\n  %g = add(%e, %f)\n", "tensor<[n, 6], f32>", "%g"),
    "rounding": ("  %a = round(%y)\n  %c = floor(%y)\n  %d = ceil(%y)\n  %e = sub(%a, %c)\n  %f = mul(%e, %d)\n", "tensor<[n, 6], f32>", "%f"),
    "activations": ("  %a = gelu(%y)\n  %c = silu(%a)\n  %d = elu(%c) {alpha = 0.5}\n  %e = leaky_relu(%d)\n  %f = hard_sigmoid(%e)\n"
                    "  %g = clip(%f) {min = 0.25, max = 0.75}\n", "tensor<[n, 6], f32>", "%g"),
    "compare": ("  %t = transpose(%y)\n  %u = reduce_max(%y) {axes = [1], keep_dims = true}\n  %l = less(%y, %u)\n  %m = logical_and(%l, %b)\n"
                "  %r = where(%m, %y, %u)\n", "tensor<[n, 6], f32>", "%r"),
    "modulo": ("  %s = reduce_max(%y) {axes = [0], keep_dims = true}\n  %m = floor_mod(%y, %s)\n  %t = trunc_mod(%y, %s)\n"
               "  %r = add(%m, %t)\n", "tensor<[n, 6], f32>", "%r"),
    "product": ("  %p = matmul(%y, %z)\n  %s = softmax(%p) {axis = 0}\n", "tensor<[n, 4], f32>", "%s"),
    "product_transposed": ("  %t = transpose(%z)\n  %p = matmul(%y, %t) {transpose_b = true}\n", "tensor<[n, 4], f32>", "%p"),
    "norms": ("  %s = reduce_sum(%z) {axes = [1]}\n  %l = layer_norm(%y, %s, %s)\n  %r = rms_norm(%l, %s)\n  %p = layer_norm(%r)\n",
              "tensor<[n, 6], f32>", "%p"),
    "pools": ("  %m = max_pool2d(%x) {kernel = [3, 3], strides = [2, 2], padding = [1, 1]}\n"
              "  %a = avg_pool2d(%x) {kernel = [2, 2], strides = [2, 2], ceil_mode = true}\n  %r = sub(%m, %a)\n", "tensor<[2, 4, 3, 3], f32>", "%r"),
    "convolution": ("  %w = slice(%x) {starts = [0, 0, 0], ends = [2, 3, 3], axes = [1, 2, 3]}\n"
                    "  %c = conv2d(%x, %w) {groups = 2, padding = [1, 0, 0, 1], dilation = [1, 2]}\n", "tensor<[2, 2, 5, 3], f32>", "%c"),
    "transposed_convolution": ("  %w = transpose(%x) {axes = [1, 0, 2, 3]}\n  %c = conv_transpose(%x, %w) {strides = [2, 2], output_padding = [1, 0]}\n",
                               "tensor<[2, 2, 17, 16], f32>", "%c"),
    "reductions": ("  %s = reduce_mean(%y) {axes = [0]}\n  %p = reduce_prod(%y) {axes = [0], keep_dims = true}\n  %r = mul(%s, %p)\n",
                   "tensor<[1, 6], f32>", "%r"),
    "positions": ("  %a = argmax(%y) {axis = 1}\n  %m = argmin(%y) {axis = 1, last = true}\n  %r = sub(%a, %m)\n", "tensor<[n], i64>", "%r"),
    "sums": ("  %c = cumsum(%y) {axis = 1, exclusive = true, reverse = true}\n", "tensor<[n, 6], f32>", "%c"),
    "best": ("  %v, %p = top_k(%y) {k = 3, largest = false}\n  %q = cast(%p) {dtype = f32}\n  %r = add(%v, %q)\n", "tensor<[n, 3], f32>", "%r"),
    "reshape": ("  %d = shape [floordiv(n * 6, 3), 3]\n  %r = reshape(%y, %d)\n", "tensor<[floordiv(n * 6, 3), 3], f32>", "%r"),
    "stretch": ("  %d = shape [n + 1, n, 6]\n  %r = broadcast_to(%y, %d)\n", "tensor<[n + 1, n, 6], f32>", "%r"),
    "join": ("  %c = concat(%y, %y) {axis = 1}\n  %p, %q = split(%c) {axis = 1, sections = [5, 7]}\n", "tensor<[n, 7], f32>", "%q"),
    "pad": ("  %p = pad(%z) {before = [1, 0], after = [0, 2], mode = \"reflect\"}\n  %q = pad(%p) {before = [0, 1], after = [1, 0], value = 2.5}\n",
            "tensor<[8, 7], f32>", "%q"),
    "slices": ("  %s = slice(%y) {starts = [-1], ends = [-7], axes = [1], steps = [-2]}\n", "tensor<[n, 3], f32>", "%s"),
    "gather": ("  %g = gather(%z, %i) {axis = 0}\n  %e = embedding(%z, %i)\n  %r = mul(%g, %e)\n", "tensor<[n, 4], f32>", "%r"),
    "hot": ("  %h = one_hot(%i) {depth = 5, on = 2.0, off = -1.0}\n", "tensor<[n, 5], f32>", "%h"),
    "range": ("  %d = shape [n]\n  %r = range(%d) {start = 0.5, step = 0.25}\n", "tensor<[n], f32>", "%r"),
    "resize": ("  %d = shape [2, 4, 9, 12]\n  %r = resize(%x, %d) {mode = \"linear\", axes = [2, 3]}\n", "tensor<[2, 4, 9, 12], f32>", "%r"),
    "scatter": ("  %d = shape [n, 1]\n  %p = reshape(%i, %d)\n  %u = matmul(%y, %z)\n  %s = scatter_nd(%z, %p, %u) {reduction = \"add\"}\n",
                "tensor<[6, 4], f32>", "%s"),
    "symbols": ("  %d = shape [max(n - 3, 1) * min(n, 2), ceildiv(n * 6, max(n - 3, 1) * min(n, 2))]\n  %e = shape [ceildiv(n, 2) + n]\n"
                "  %r = range(%e)\n", "tensor<[ceildiv(n, 2) + n], f32>", "%r"),
}


def module(body, result, name):
    return f"""cugrt 1

func @main(%x: tensor<[2, 4, 6, 6], f32>, %y: tensor<[n, 6], f32>, %z: tensor<[6, 4], f32>, %i: tensor<[n], i32>, %b: tensor<[n, 6], bool>)
    -> ({result}) attributes {{lower_bounds = {{n = 1}}, upper_bounds = {{n = 16}}}} {{
{body}  return {name}
}}
"""


def inputs():
    random = np.random.default_rng(5)
    draw = lambda *dims: random.uniform(-2, 2, dims).astype("float32")
    return {"x": draw(2, 4, 6, 6), "y": draw(5, 6), "z": draw(6, 4), "i": np.array([0, 3, 1, 2, 5], "int32"), "b": random.random((5, 6)) < 0.5}


def export(source, to):
    return subprocess.run([TOOL, "plan", str(source), "--onnx", str(to)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", CASES)
def test_a_module_gives_the_same_on_onnx_runtime(name, tmp_path):
    text = module(*CASES[name])
    (tmp_path / "m.cugrt").write_text(text)
    done = export(tmp_path / "m.cugrt", tmp_path / "m.onnx")
    assert done.returncode == 0, done.stderr
    given = inputs()
    want = cugrt.load(text.encode())(**given)
    session = onnxruntime.InferenceSession((tmp_path / "m.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["x", "y", "z", "i", "b"]
    got = session.run(["result0"], given)[0]
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_a_loop_and_a_branch_are_loop_and_if(tmp_path):
    text = """cugrt 1

func @main(%x: tensor<[4], f32>, %n: tensor<[], i32>, %c: tensor<[], bool>) -> (tensor<[4], f32>) {
  %one = constant @one
  %zero = constant @zero
  %last, %i = while (%v = %x, %k = %zero) using (%n, %one) {
    %go = less(%k, %n)
    yield %go
  } do (%t, %m) {
    %d = add(%t, %t)
    %j = add(%m, %one)
    yield %d, %j
  }
  %r = if %c using (%last) -> tensor<[4], f32> {
    %a = neg(%last)
    yield %a
  } else {
    %e = exp(%last)
    yield %e
  }
  return %r
}
constant @one : tensor<[], i32> = [1]
constant @zero : tensor<[], i32> = [0]
"""
    (tmp_path / "m.cugrt").write_text(text)
    done = export(tmp_path / "m.cugrt", tmp_path / "m.onnx")
    assert done.returncode == 0, done.stderr
    session = onnxruntime.InferenceSession((tmp_path / "m.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    x = np.array([0.25, -1, 0, 0.5], "float32")
    for turns in (0, 3):
        for branch in (False, True):
            want = -x * 2.0**turns if branch else np.exp(x * 2.0**turns)
            got = session.run(None, {"x": x, "n": np.array(turns, "int32"), "c": np.array(branch)})[0]
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_model_keeps_its_names_and_weights(model_bytes, x, tmp_path):
    (tmp_path / "m.onnx").write_bytes(model_bytes)
    done = export(tmp_path / "m.onnx", tmp_path / "back.onnx")
    assert done.returncode == 0, done.stderr
    before, after = (onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
                     for data in (model_bytes, (tmp_path / "back.onnx").read_bytes()))
    assert [one.name for one in after.get_inputs()] == ["input:0"] and [one.name for one in after.get_outputs()] == ["out/y"]
    assert np.array_equal(after.run(None, {"input:0": x})[0], before.run(None, {"input:0": x})[0])
    # And the importer takes it as the model that it was.
    assert np.array_equal(cugrt.load(tmp_path / "back.onnx")(**{"input:0": x}), before.run(None, {"input:0": x})[0])


def test_what_onnx_has_no_op_for_is_a_node_of_our_own(tmp_path):
    text = """cugrt 1

func @main(%x: tensor<[2, 3, 8], f32>, %p: tensor<[2], i32>) -> (tensor<[2, 3, 8], f32>) {
  %r = rotary(%x, %p) {dims = 4, interleaved = true}
  return %r
}
"""
    (tmp_path / "m.cugrt").write_text(text)
    done = export(tmp_path / "m.cugrt", tmp_path / "m.onnx")
    assert done.returncode == 0, done.stderr
    data = (tmp_path / "m.onnx").read_bytes()
    assert b"rotary" in data and b"interleaved" in data
    with pytest.raises(Exception, match="rotary"):
        onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])


def test_a_pack_and_a_lowered_module_are_refused_and_write_nothing(tmp_path):
    text = module(*CASES["product"])
    (tmp_path / "m.cugrt").write_text(text)
    lowered = subprocess.run([TOOL, "opt", str(tmp_path / "m.cugrt")], capture_output=True, text=True, check=True).stdout
    (tmp_path / "low.cugrt").write_text(lowered)
    done = export(tmp_path / "low.cugrt", tmp_path / "low.onnx")
    assert done.returncode == 1 and "before it is lowered" in done.stderr
    assert not (tmp_path / "low.onnx").exists()


model_bytes = test_onnx.model_bytes
