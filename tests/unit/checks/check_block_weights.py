#!/usr/bin/env python3
"""Weights in block formats from a file: bytes in safetensors and .npy, read as q4_0, q4_1 and q8_0.

Blocks are written here from their definition, as GGUF has them: of 32 elements, a scale in half
precision, for q4_1 a minimum, then the elements, of four bits the first sixteen in the low halves.

  check_block_weights.py TOOL EMULATED_DRIVER
"""
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from tensor_files import floats, read_npy, write_npy, write_weight  # noqa: E402

ROWS, K = 3, 64  # of the weight: three rows of two blocks
BLOCK_BYTES = {"q4_0": 18, "q4_1": 20, "q8_0": 34}

MODULE = """cugrt 1
func @main(%x: tensor<[n, 64], f32>, %w: tensor<[ROWS, COLUMNS], DTYPE>) -> (tensor<[n, ROWS], f32>)
    attributes {num_inputs = INPUTS, upper_bounds = {n = 64}} {
  %y = matmul_blocks(%x, %w)
  return %y
}
"""


def halves(values):
    return bytes(low | high << 4 for low, high in zip(values[:16], values[16:]))


def block(dtype, scale, least, elements):
    """The bytes of a block and the numbers that they stand for."""
    if dtype == "q4_0":  # (q - 8) * scale
        return struct.pack("<e", scale) + halves(elements), [(q - 8) * scale for q in elements]
    if dtype == "q4_1":  # q * scale + least
        data = struct.pack("<ee", scale, least) + halves(elements)
        return data, [q * scale + least for q in elements]
    signed = [q - 8 for q in elements]  # q8_0: q * scale, q signed
    return struct.pack("<e32b", scale, *signed), [q * scale for q in signed]


def matrix(dtype):
    data, numbers = b"", []
    for row in range(ROWS):
        numbers.append([])
        for at in range(K // 32):
            elements = [(7 * i + 5 * row + 3 * at + 1) % 16 for i in range(32)]
            made, means = block(dtype, 0.25 * (row + 1), at - 0.5, elements)
            data += made
            numbers[-1] += means
    return data, numbers


def main():
    tool, emulator = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        def at(name):
            return os.path.join(work, name)

        def run(*arguments, status=0, device="sm_90"):
            done = subprocess.run(
                [tool, *arguments], text=True, capture_output=True, timeout=300,
                env={**os.environ, "CUGRT_CACHE": at("cache"), "CUGRT_DRIVER": "emulated",
                     "CUGRT_EMULATOR": emulator, "CUGRT_EMU_DEVICE": device})
            assert done.returncode == status, (arguments, done.returncode, done.stderr)
            return done

        def module(name, dtype, rows=ROWS, columns=K, inputs=1):
            text = MODULE.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
            text = text.replace("DTYPE", dtype).replace("INPUTS", str(inputs))
            with open(at(name), "w", encoding="utf-8") as file:
                file.write(text)

        # Each row of x has one 1: the result's rows are the weight's columns.
        ones = [1.0 if i == j else 0.0 for i in range(K) for j in range(K)]
        write_npy(at("x.npy"), "<f4", (K, K), floats(ones))
        inputs = ["--input", "x=" + at("x.npy"), "--output", at("out")]

        for dtype, block_bytes in BLOCK_BYTES.items():
            data, numbers = matrix(dtype)
            shape = [ROWS, K // 32 * block_bytes]
            assert len(data) == shape[0] * shape[1]
            expected = [numbers[row][column] for column in range(K) for row in range(ROWS)]

            def check(*arguments, device="sm_90"):
                run("run", *arguments, *inputs, device=device)
                result = read_npy(at("out/result0.npy"))
                assert result == expected, (dtype, arguments, result[:8], expected[:8])
                os.remove(at("out/result0.npy"))

            module("m.cugrt", dtype)
            write_weight(at("w.safetensors"), shape, data, "U8")
            check(at("m.cugrt"), "--weights", at("w.safetensors"))
            for inside in [[], ["--weights-inside"]]:
                run("compile", "--arch", "compute_75", at("m.cugrt"), "-o", at("m.pack"),
                    "--weights", at("w.safetensors"), *inside)
                check(at("m.pack"))
            # As an input, too.
            module("input.cugrt", dtype, inputs=2)
            write_npy(at("w.npy"), "|u1", shape, data)
            check(at("input.cugrt"), "--input", "w=" + at("w.npy"))
            # Where memory is the host's, inputs are read where they were put.
            check(at("input.cugrt"), "--input", "w=" + at("w.npy"), device="sm_87")

            # A wrong number of bytes, of rows, a flat tensor, another dtype: refused in both ways.
            compile = ["compile", "--arch", "compute_75", at("m.cugrt"), "-o", at("bad.pack")]
            for wrong, what, parts in (
                    ([ROWS, shape[1] - 1], "U8",
                     [f"takes {shape[1]} bytes", f"rows have {shape[1] - 1}", dtype]),
                    ([ROWS - 1, shape[1]], "U8", [str(ROWS - 1)]),
                    ([ROWS * shape[1]], "U8", ["%w"]),
                    (shape, "I8", ["%w", "i8"])):
                size = 1
                for dim in wrong:
                    size *= dim
                write_weight(at("bad.safetensors"), wrong, data[:size], what)
                for command in (compile, ["run", at("m.cugrt"), *inputs]):
                    error = run(*command, "--weights", at("bad.safetensors"), status=1).stderr
                    assert all(part in error for part in parts), (wrong, error)
            assert not os.path.exists(at("bad.pack"))
    print("block formats are read from files of bytes")


if __name__ == "__main__":
    sys.exit(main())
