#!/usr/bin/env python3
"""What a call from Python costs: instructions of one, counted by callgrind, beside a call of ONNX Runtime.

  ./dev bench python [--json FILE]

Four arrays go in and one comes out, on the driver that does nothing, so that what is left is the host's own work.
`c_abi` is what is spent in calls of the C ABI (the driver's part too), `over_c_abi` all the rest of a call: the
interpreter, the package, NumPy, the C++ API's checks. ONNX Runtime's call computes the same sum of four arrays of 16
floats; what is inside of its module cannot be told apart, so its row is a whole call.
"""
import argparse
import glob
import os
import subprocess
import sys
import tempfile

from support.write_json import write_json

HERE = os.path.dirname(os.path.abspath(__file__))
FEW, MANY = 100, 1100  # calls: the difference of two runs has nothing of starting up

MODULE = """cugrt 1
func @main(%a: tensor<[n, 4], f32>, %b: tensor<[n, 4], f32>, %c: tensor<[n, 4], f32>, %d: tensor<[n, 4], f32>)
    -> (tensor<[n, 4], f32>) attributes {upper_bounds = {n = 64}} {
  %x = add(%a, %b)
  %y = add(%c, %d)
  %z = add(%x, %y)
  return %z
}
"""


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(number, value):
    """A field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx_model():
    """The same sum as an ONNX file."""
    dims = field(1, field(2, "n")) + field(1, field(1, 4))
    value = lambda name: field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))
    node = lambda a, b, c: field(1, field(1, a) + field(1, b) + field(2, c) + field(4, "Add"))
    graph = node("a", "b", "x") + node("c", "d", "y") + node("x", "y", "z") + field(2, "g")
    graph += b"".join(field(11, value(name)) for name in "abcd") + field(12, value("z"))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def calls(case, count, driver):
    """What runs under callgrind."""
    import numpy as np
    arrays = {name: np.ones((4, 4), "float32") for name in "abcd"}
    if case == "onnxruntime":
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(onnx_model(), options, providers=["CPUExecutionProvider"])
        call = lambda: session.run(None, arrays)
    else:
        import cugrt
        model = cugrt.load(MODULE.encode(), driver=driver)
        if case == "device":
            arrays = {name: model.to_device(array) for name, array in arrays.items()}
        out = {"result0": np.empty((4, 4), "float32")}
        call = {"numpy": lambda: model(**arrays), "numpy_out": lambda: model.run(arrays, out=out),
                "device": lambda: model.run(arrays, device=True)}[case]
    for _ in range(count):
        call()


def counted(path):
    """(instructions, those within calls that the package makes of libcugrt) of a callgrind file of one thread."""
    total = inside = 0
    of_package = to_library = of_callee = False
    with open(path) as file:
        for line in file:
            if line.startswith("ob="):
                of_package = "/_native" in line
                to_library = False
            elif line.startswith("fn="):
                to_library = False
            elif line.startswith("cob="):
                to_library = "/libcugrt.so" in line
            elif line.startswith("calls="):
                of_callee = True
            elif line[:1] in "0123456789+-*" and " " in line:
                cost = int(line.split()[1])
                if not of_callee:
                    total += cost
                elif of_package and to_library:
                    inside += cost
                if of_callee:
                    of_callee = to_library = False
    return total, inside


def run(case, count, driver, folder):
    out = os.path.join(folder, f"{case}.{count}")
    subprocess.run(["valgrind", "-q", "--tool=callgrind", "--separate-threads=yes", "--compress-strings=no", "--compress-pos=no",
                    f"--callgrind-out-file={out}", sys.executable, __file__, "--calls", case, str(count), driver],
                   check=True, stdout=sys.stderr, env={**os.environ, "PYTHONHASHSEED": "0"})
    return counted(sorted(glob.glob(out + "-01"))[0])


def main():
    if sys.argv[1:2] == ["--calls"]:
        return calls(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--driver", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    rows = []
    print(f"{'call':<14} {'instructions':>12} {'c_abi':>8} {'over_c_abi':>10}")
    with tempfile.TemporaryDirectory() as folder:
        calls("numpy", 1, options.driver)  # kernels are in the code cache from here on
        for case in ("numpy", "numpy_out", "device", "onnxruntime"):
            few, many = (run(case, count, options.driver, folder) for count in (FEW, MANY))
            instructions, inside = ((b - a) // (MANY - FEW) for a, b in zip(few, many))
            own = case != "onnxruntime"
            rows.append({"bench": "python", "case": case, "arrays": 4, "instructions": instructions,
                         "c_abi": inside if own else None, "over_c_abi": instructions - inside if own else None})
            print(f"{case:<14} {instructions:>12} {inside if own else '-':>8} {instructions - inside if own else '-':>10}")
    if options.json:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
