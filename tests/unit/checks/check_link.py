"""cugrt link: models that become one, and what it refuses. Usage: check_link.py CUGRT
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

SCALE = """cugrt 1
func @main(%x: tensor<[n, 3], f32>, %k: tensor<[3], f32>) -> (tensor<[n, 3], f32>)
    attributes {num_inputs = 1, upper_bounds = {n = 8}} {
  %y = mul(%x, %k)
  return %y
}
"""
SHIFT = """cugrt 1
func @main(%x: tensor<[m, 3], f32>, %k: tensor<[3], f32>) -> (tensor<[m, 3], f32>)
    attributes {num_inputs = 1, upper_bounds = {m = 8}} {
  %y = add(%x, %k)
  return %y
}
"""


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def weights(path, values):
    header = json.dumps({"k": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + floats(*values))


def main():
    tool = sys.argv[1]
    environment = {**os.environ, "CUGRT_DRIVER": "emulated"}
    failures = 0

    def check(holds, what):
        nonlocal failures
        if not holds:
            failures += 1
            print(f"failed: {what}")

    with tempfile.TemporaryDirectory() as folder:
        def path(name):
            return os.path.join(folder, name)

        def run(*arguments):
            return subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=120, env=environment,
                                  check=False)

        for name, text in (("scale.cugrt", SCALE), ("shift.cugrt", SHIFT)):
            with open(path(name), "w") as file:
                file.write(text)
        weights(path("scale.safetensors"), [2, 3, 4])
        weights(path("shift.safetensors"), [10, 20, 30])
        with open(path("x.npy"), "wb") as file:
            header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".ljust(117) + "\n"
            file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + floats(1, 2, 3, 4, 5, 6))

        parts = [f"a={path('scale.cugrt')}", f"b={path('shift.cugrt')}"]
        given = ["--weights", f"a={path('scale.safetensors')}", "--weights", f"b={path('shift.safetensors')}"]
        made = run("link", *parts, *given, "--connect", "b.x=a.result0", "-o", path("both.cugrt"))
        check(made.returncode == 0, f"link: {made.stderr}")
        ran = run("run", path("both.cugrt"), "--weights", path("both.safetensors"), "--input", f"a.x={path('x.npy')}",
                  "--output", folder)
        check(ran.returncode == 0, f"run: {ran.stderr}")
        if ran.returncode == 0:
            with open(path("result0.npy"), "rb") as file:
                check(file.read()[-24:] == floats(12, 26, 42, 18, 35, 54), "x times k of a, plus k of b")

        for arguments, sentence in (
                (["a"], "a part is NAME=MODEL, not 'a'"),
                ([*parts, "--weights", "c=x"], "there is no part 'c'"),
                ([*parts, "--connect", "b.x"], "--connect is PART.INPUT=PART.RESULT, not 'b.x'"),
                ([*parts, "--connect", "b.k=a.result0"], "they do not join"),
                ([f"a={path('none')}"], "none")):
            refused = run("link", *arguments, "-o", path("no.cugrt"))
            check(refused.returncode != 0 and sentence in refused.stderr, f"{arguments}: {refused.stderr}")
            check(not os.path.exists(path("no.cugrt")), f"{arguments} leaves a file")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
