#!/usr/bin/env python3
"""cugrt compare on a model written by hand: errors, the bound, and the first node beyond it; run and compare on one with
a result whose size the data decide, and on one that takes a shape.

  check_compare.py CUGRT
"""
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from titled_tests import equal, run_tests, test  # noqa: E402


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number, payload):
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    payload = payload.encode() if isinstance(payload, str) else payload
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def node(op, inputs, output):
    return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(3, "the " + op) + field(4, op))


def value(number, name, dims):
    shape = b"".join(field(1, field(1, dim)) for dim in dims)
    return field(number, field(1, name) + field(2, field(1, field(1, 1) + field(2, shape))))


def model():
    """y = neg(relu(x) w)"""
    weights = struct.pack("<64f", *(0.1 * (i % 7 - 3) + 0.003 for i in range(64)))
    graph = node("Relu", ["x"], "h") + node("MatMul", ["h", "w"], "p") + node("Neg", ["p"], "y")
    graph += field(5, field(1, 8) + field(1, 8) + field(2, 1) + field(8, "w") + field(9, weights))
    graph += value(11, "x", [4, 8]) + value(12, "y", [4, 8])
    return field(1, 8) + field(8, field(2, 17)) + field(7, graph)


def kept():
    """y = compress(-x, c), and z = relu(x)"""
    graph = node("Neg", ["x"], "n") + node("Compress", ["n", "c"], "y") + node("Relu", ["x"], "z")
    graph += value(11, "x", [4]) + field(11, field(1, "c") + field(2, field(1, field(1, 9) + field(2, field(1, field(1, 4))))))
    graph += field(12, field(1, "y") + field(2, field(1, field(1, 1) + field(2, b"")))) + value(12, "z", [4])
    return field(1, 8) + field(8, field(2, 17)) + field(7, graph)


def shaped():
    """y = neg(reshape(x, shape))"""
    graph = node("Reshape", ["x", "shape"], "r") + node("Neg", ["r"], "y") + value(11, "x", [4, 8])
    graph += field(11, field(1, "shape") + field(2, field(1, field(1, 7) + field(2, field(1, field(1, 4))))))
    graph += field(12, field(1, "y") + field(2, field(1, field(1, 1) + field(2, b""))))
    return field(1, 8) + field(8, field(2, 17)) + field(7, graph)


def npy(path, dtype, elements):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': (4,), }}".ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + elements)
    return path


class Tool:
    def __init__(self, cugrt, folder):
        self.cugrt, self.folder, self.model = cugrt, folder, os.path.join(folder, "model.onnx")
        self.kept, self.shaped = os.path.join(folder, "kept.onnx"), os.path.join(folder, "shaped.onnx")
        self.sized = os.path.join(folder, "sized.cugrt")
        for path, content in ((self.model, model()), (self.kept, kept()), (self.shaped, shaped()),
                              (self.sized, b"cugrt 1\nfunc @main(%x: tensor<[n], f32>) -> (tensor<[n], f32>) {\n"
                                           b"  %y = neg(%x)\n  return %y\n}\n")):
            with open(path, "wb") as file:
                file.write(content)

    def compare(self, *arguments):
        return self.call("compare", self.model, *arguments)

    def call(self, *arguments):
        done = subprocess.run([self.cugrt, *arguments], capture_output=True, text=True,
                              check=False, env=dict(os.environ, CUGRT_DRIVER="emulated"))
        return done.returncode, done.stdout, done.stderr


@test("f16 against f32: the error of the result, within a bound that has room for it")
def _(tool):
    status, out, _ = tool.compare("--against", "f32", "--precision", "f16", "--bound", "0.01")
    equal(status, 0)
    assert "against our own in f32" in out and "y f32[4, 8]: largest error" in out, out
    assert "beyond" not in out, out


@test("beyond the bound the first node is named, and the exit status is 1")
def _(tool):
    status, out, _ = tool.compare("--against", "f32", "--precision", "f16", "--option", "memory.effort=load",
                                  "--bound", "1e-9")
    equal(status, 1)
    assert "first beyond it: 'p' of node 'the MatMul' (MatMul)" in out, out


@test("f32 is not compared with itself")
def _(tool):
    status, _, error = tool.compare("--against", "f32")
    equal(status, 1)
    assert "compared with itself" in error, error


@test("a result whose size the data decide has that size, costs one graph, and its count is no result")
def _(tool):
    x = npy(tool.folder + "/x.npy", "<f4", struct.pack("<4f", 1, -2, 3, 4))
    pack = tool.folder + "/kept.pack"
    status, _, error = tool.call("compile", "--arch", "compute_75", tool.kept, "-o", pack)
    equal(status, 0)
    for flags, y in ((b"\1\0\1\0", "f32[2] min -3 max -1 mean -2"), (b"\0\0\0\0", "f32[0]"),
                     (b"\1\1\1\1", "f32[4] min -4 max 2 mean -1.5")):
        inputs = ("--input", "x=" + x, "--input", "c=" + npy(tool.folder + "/c.npy", "|b1", flags))
        for file in (tool.kept, pack):
            status, out, error = tool.call("run", file, *inputs, "--stats", "--repeat", "2")
            equal(status, 0)
            equal(out, f"result0: {y}\nresult1: f32[4] min 0 max 4 mean 2\n")
            assert "runs 2; instances built 1, hit 1, patched 0, eager 0" in error, error
    status, out, _ = tool.call("plan", tool.kept)
    assert "dimension 0 of result 0 is counted by result 2" in out, out


@test("compared are results of the size that they have")
def _(tool):
    inputs = ("--input", "c=" + npy(tool.folder + "/c.npy", "|b1", b"\1\0\1\1"))
    status, out, _ = tool.call("compare", tool.kept, *inputs, "--against", "f32", "--precision", "f16", "--bound", "1e-2")
    equal(status, 0)
    assert "y f32[3]: largest error" in out and "z f32[4]: largest error" in out and out.count("error") == 3, out
    status, out, _ = tool.call("compare", tool.kept, *inputs, "--against", "f32", "--precision", "f16", "--bound", "1e-9")
    assert status in (0, 1) and "Compress" not in out, out


@test("a shape is given as an array, as numbers or by its symbols, to the model and to its pack")
def _(tool):
    pack = tool.folder + "/shaped.pack"
    status, _, error = tool.call("compile", "--arch", "compute_75", tool.shaped, "-o", pack)
    equal(status, 0)
    array = "shape=" + npy(tool.folder + "/shape.npy", "<i8", struct.pack("<4q", 2, 8, 1, 2))
    symbols = [word for i, size in enumerate((2, 8, 1, 2)) for word in ("--set", f"shape_{i}={size}")]
    for file, given in ((tool.shaped, ("--input", array)), (tool.shaped, ("--input", "shape=2,8,1,2")),
                        (tool.shaped, symbols), (pack, ("--input", "shape=2,8,1,2")), (pack, symbols)):
        status, out, error = tool.call("run", file, "--input", "x=random", *given)
        assert status == 0, error
        assert out.startswith("result0: f32[2, 8, 1, 2] "), out
    status, out, error = tool.call("run", tool.shaped, "--input", "x=random", "--input", "shape=2,8,1")
    equal((status, out), (1, ""))
    assert "shape" in error, error
    status, out, error = tool.call("run", tool.shaped, "--input", "x=random")
    equal((status, out), (1, ""))
    assert "give a value for parameter 'shape', which is shape<[shape_0, shape_1, shape_2, shape_3]>" in error, error
    status, out, error = tool.call("run", tool.sized, "--input", "x=random")
    equal((status, out), (1, ""))
    assert "the dimensions of 'x' are [n]: give an input that has them, or symbols by --set SYMBOL=NUMBER" in error, error
    status, out, error = tool.call("compare", tool.shaped, "--input", array, "--against", "f32", "--precision", "f16")
    equal(status, 0)
    assert "y f32[2, 8, 1, 2]: largest error" in out, out


def main():
    with tempfile.TemporaryDirectory() as folder:
        return run_tests(Tool(sys.argv[1], folder))


if __name__ == "__main__":
    sys.exit(main())
