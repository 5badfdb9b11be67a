#!/usr/bin/env python3
"""examples/voice on a model of a detector's interface that counts frames: each state becomes the next one.

  check_voice.py VOICE
"""
import os
import struct
import subprocess
import sys
import tempfile

FRAMES, MARKS = 93, " .:|#"


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def field(number_of, value):
    return varint(number_of << 3 | 2) + varint(len(value)) + value


def node(op, inputs, output, *attributes):
    return field(1, b"".join(field(1, name.encode()) for name in inputs) + field(2, output.encode())
                 + field(4, op.encode()) + b"".join(field(5, one) for one in attributes))


def value(kind, name, dtype, dims):
    shape = b"".join(field(1, number(1, d) if isinstance(d, int) else field(2, d.encode())) for d in dims)
    return field(kind, field(1, name.encode()) + field(2, field(1, number(1, dtype) + field(2, shape))))


def constant(name, bits):
    return field(5, number(2, 1) + field(8, name.encode()) + field(9, bits))


def counting_model():
    """output = mean of the state + 0 * mean of the input; stateN = state + 1 / FRAMES."""
    keep = field(1, b"keepdims") + number(3, 0) + number(20, 2)
    graph = (node("ReduceMean", ["state"], "count", keep) + node("ReduceMean", ["input"], "heard", keep)
             + node("Mul", ["heard", "zero"], "nothing") + node("Add", ["count", "nothing"], "sum")
             + node("Expand", ["sum", "ones"], "output") + node("Add", ["state", "step"], "stateN")
             + constant("zero", struct.pack("<f", 0)) + constant("step", struct.pack("<f", 1 / FRAMES))
             + field(5, number(1, 2) + number(2, 7) + field(8, b"ones") + field(9, struct.pack("<2q", 1, 1)))
             + value(11, "input", 1, ["batch", "sequence"]) + value(11, "sr", 7, [])
             + value(11, "state", 1, [2, "batch", 128]) + value(12, "output", 1, ["batch", 1])
             + value(12, "stateN", 1, [2, "batch", 128]))
    return number(1, 8) + field(8, number(2, 17)) + field(7, graph)


def main():
    os.environ["CUGRT_DRIVER"] = "emulated"
    with tempfile.TemporaryDirectory() as folder:
        model, broken = os.path.join(folder, "model.onnx"), os.path.join(folder, "broken.wav")
        with open(model, "wb") as file:
            file.write(counting_model())
        with open(broken, "wb") as file:
            file.write(b"RIFF....")
        done = subprocess.run([sys.argv[1], model], capture_output=True, text=True, timeout=100, check=False)
        lines = done.stdout.splitlines()
        got = "".join(line.split("s  ", 1)[1] for line in lines[:-1])
        wanted = "".join(MARKS[int(5 * frame / FRAMES)] for frame in range(FRAMES))
        if done.returncode or got != wanted or not lines[-1].startswith(f"{FRAMES} frames; graphs built 1,"):
            print(f"voice heard something else: {done.stdout!r} {done.stderr!r}")
            return 1
        # Where nobody chooses a driver and there is none, the emulated one is taken: said once, and what is missing too.
        environment = {name: value for name, value in os.environ.items() if name != "CUGRT_DRIVER"}
        done = subprocess.run([sys.argv[1], model], capture_output=True, text=True, timeout=100, check=False, env=environment)
        missing = [line for line in done.stderr.splitlines() if "no CUDA driver" in line]
        emulated = [line for line in done.stderr.splitlines() if line.startswith("voice: EMULATED: ")]
        if done.returncode or len(missing) != len(emulated) or any(line.count("no CUDA driver") != 1 for line in missing) or \
                done.stdout.splitlines()[:-1] != lines[:-1]:
            print(f"voice without a choice of driver: {done.returncode}, {done.stderr!r}")
            return 1
        done = subprocess.run([sys.argv[1], model, broken], capture_output=True, text=True, timeout=100, check=False)
        if done.returncode != 1 or "voice: " not in done.stderr:
            print(f"voice takes a broken recording: {done.stderr!r}")
            return 1
    print(f"{FRAMES} frames, each state the next one's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
