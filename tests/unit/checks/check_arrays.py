"""Headers of .npy files that the tool reads and refuses. Usage: check_arrays.py CUGRT
"""
import os
import struct
import subprocess
import sys
import tempfile

MODULE = """cugrt 1
func @main(%x: tensor<[2, 4], f32>) -> (tensor<[2, 4], f32>) {
  %y = relu(%x)
  return %y
}
"""

GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }"
HEADERS = [
    # header; what the error must hold, None: it is read
    (GOOD, None),
    ('{"shape":(2,4),"descr":"<f4","fortran_order":False}', None),
    (GOOD + " " * 9000 + "\n", None),
    (GOOD + " " * 10000 + "\n", "more than 10000 bytes"),
    (GOOD.replace("(2, 4)", "(,,2,,4,,)"), "no dictionary"),
    (GOOD.replace("(2, 4)", "(2 4)"), "no dictionary"),
    (GOOD.replace("(2, 4)", "(-2, 4)"), "no dictionary"),
    (GOOD.replace("(2, 4)", "(2, 4"), "no dictionary"),
    (GOOD.replace("(2, 4)", "(99999999999999999999, 4)"), "too large"),
    (GOOD.replace("(2, 4)", "(" + "1," * 4000 + ")"), "dimensions"),
    (GOOD.replace("False", "True"), "Fortran order"),
    (GOOD.replace("False", "None"), "no dictionary"),
    (GOOD.replace("<f4", "<c8"), "dtype <c8"),
    (GOOD.replace("'<f4'", "[('a', '<f4')]"), "no dictionary"),
    (GOOD.replace("'shape'", "'descr'"), "no dictionary"),
    (GOOD.replace("'fortran_order': False, ", ""), "no dictionary"),
    (GOOD + " more", "no dictionary"),
    ("", "no dictionary"),
]


def write_array(path, header, data=struct.pack("<8f", *range(8))):
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode())
        file.write(data)


def main():
    tool = sys.argv[1]
    environment = {**os.environ, "CUGRT_DRIVER": "emulated"}
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        module, array = os.path.join(folder, "m.cugrt"), os.path.join(folder, "x.npy")
        with open(module, "w") as file:
            file.write(MODULE)

        def run(module):
            return subprocess.run([tool, "run", module, "--input", f"x={array}", "--output", folder],
                                  capture_output=True, text=True, timeout=120, env=environment,
                                  check=False)

        for header, error in HEADERS:
            write_array(array, header)
            result = run(module)
            said = [line for line in result.stderr.splitlines() if "EMULATED" not in line]
            right = result.returncode == 0 if error is None else (
                result.returncode == 1 and len(said) == 1 and error in said[0])
            if not right:
                failures += 1
                print(f"{header[:60]!r}: status {result.returncode}: {result.stderr[:300]!r}")
        # bf16 as NumPy saves it, and as it was written: the result is an input again.
        brain = os.path.join(folder, "brain.cugrt")
        with open(brain, "w") as file:
            file.write(MODULE.replace("f32", "bf16"))
        values = struct.pack("<8H", *range(0x3F80, 0x3F88))
        for descr in ("|V2", "<V2"):
            write_array(array, GOOD.replace("<f4", descr), values)
            for turn in range(2):
                result = run(brain)
                array = os.path.join(folder, "result0.npy")
                if result.returncode or open(array, "rb").read()[-16:] != values:
                    failures += 1
                    print(f"bf16, {descr}, run {turn}: {result.stderr[:300]!r}")
    print(f"{len(HEADERS)} files, {failures} wrongly")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
