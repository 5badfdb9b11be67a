#!/usr/bin/env python3
"""A module and a pack that version 0.1.0 made are read by this one, and give what they gave: docs/versions.md.

  check_promises.py CUGRT DATA

DATA holds model.cugrt, weights.safetensors and model.pack, for compute_75; they are never made anew. The results are
computed here.
"""

import ast
import os
import struct
import subprocess
import sys
import tempfile

ROWS = 3
X = [[(r * 4 + c) % 7 / 4 - 0.75 for c in range(4)] for r in range(ROWS)]
W = [[((r * 3 + c) % 5 - 2) / 4 for c in range(3)] for r in range(4)]  # as in weights.safetensors


def write_npy(path, rows):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        file.write(struct.pack(f"<{len(rows) * len(rows[0])}f", *[value for row in rows for value in row]))


def read_npy(path):
    """The elements in order, and the shape."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10 : 10 + size].decode())
    kind = {"<f4": "f", "<i8": "q"}[header["descr"]]
    rest = data[10 + size :]
    return list(struct.unpack(f"<{len(rest) // struct.calcsize(kind)}{kind}", rest)), header["shape"]


def expected():
    """relu(x w) / 2, and where each row is largest; eighths, so exact."""
    y = [[max(0, sum(x[k] * W[k][c] for k in range(4))) / 2 for c in range(3)] for x in X]
    return [value for row in y for value in row], [row.index(max(row)) for row in y]


def main():
    cugrt, data = sys.argv[1:]
    problems = []
    values, best = expected()
    with tempfile.TemporaryDirectory() as folder:
        write_npy(os.path.join(folder, "x.npy"), X)
        for name, more in (
            ("model.cugrt", ["--weights", os.path.join(data, "weights.safetensors")]),
            ("model.pack", []),
        ):
            out = os.path.join(folder, name)
            os.makedirs(out)
            done = subprocess.run(
                [cugrt, "run", os.path.join(data, name), *more, "--input", f"x={folder}/x.npy", "--output", out],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "CUGRT_DRIVER": "emulated"},
            )
            if done.returncode:
                problems.append(f"{name}: exit status {done.returncode}: {done.stderr}")
                continue
            for number, want in ((0, (values, (ROWS, 3))), (1, (best, (ROWS,)))):
                got = read_npy(os.path.join(out, f"result{number}.npy"))
                if got != want:
                    problems.append(f"{name}: result {number} is {got}, not {want}")
    for problem in problems:
        print(problem)
    print(f"a module and a pack of 0.1.0, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
