#!/usr/bin/env python3
"""cugrt compare on a model written by hand: errors, the bound, and the first node beyond it.

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


class Tool:
    def __init__(self, cugrt, folder):
        self.cugrt, self.model = cugrt, os.path.join(folder, "model.onnx")
        with open(self.model, "wb") as file:
            file.write(model())

    def compare(self, *arguments):
        done = subprocess.run([self.cugrt, "compare", self.model, *arguments], capture_output=True, text=True,
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
    status, out, _ = tool.compare("--against", "f32", "--precision", "f16", "--bound", "1e-9")
    equal(status, 1)
    assert "first beyond it: 'p' of node 'the MatMul' (MatMul)" in out, out


@test("f32 is not compared with itself")
def _(tool):
    status, _, error = tool.compare("--against", "f32")
    equal(status, 1)
    assert "compared with itself" in error, error


def main():
    with tempfile.TemporaryDirectory() as folder:
        return run_tests(Tool(sys.argv[1], folder))


if __name__ == "__main__":
    sys.exit(main())
