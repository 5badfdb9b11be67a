"""Mojo: its compiler (max-core) asks NVML for the device, makes PTX for it and has that assembled.

The emulated driver takes PTX alone, so that a script stands in the assembler's place which hands the PTX on as it is.
"""
import functools
import os
import subprocess
import sys
import tempfile

import cases

PTX_AS_IT_IS = """#!/bin/sh
for word; do
  case $before in -o) out=$word;; esac
  case $word in *.ptx) in=$word;; esac
  before=$word
done
cp "$in" "$out"
"""
PROGRAM = """
from max.gpu import barrier, block_idx, global_idx, thread_idx
from max.gpu.host import DeviceContext
from max.gpu.memory import AddressSpace
from std.memory import stack_allocation

comptime N = 1000
comptime Floats = Pointer[Float32, MutAnyOrigin]

def add(a: Floats, b: Floats, sums: Floats):
    var i = global_idx.x
    if i < N:
        sums[unsafe_offset=i] = a[unsafe_offset=i] + b[unsafe_offset=i]

def block_sum(values: Floats, sums: Floats):
    var shared = stack_allocation[128, Float32, address_space=AddressSpace.SHARED]()
    var t = thread_idx.x
    shared[unsafe_offset=t] = values[unsafe_offset=global_idx.x] if global_idx.x < N else 0
    barrier()
    var half = 64
    while half > 0:
        if t < half:
            shared[unsafe_offset=t] += shared[unsafe_offset=t + half]
        barrier()
        half //= 2
    if t == 0:
        sums[unsafe_offset=block_idx.x] = shared[unsafe_offset=0]

def main() raises:
    var device = DeviceContext()
    print("name", device.name())
    var a = device.enqueue_create_buffer[DType.float32](N)
    var b = device.enqueue_create_buffer[DType.float32](N)
    var c = device.enqueue_create_buffer[DType.float32](N)
    var sums = device.enqueue_create_buffer[DType.float32](8)
    with a.map_to_host() as first, b.map_to_host() as second:
        for i in range(N):
            first[i] = Float32(i)
            second[i] = Float32(2 * i)
    device.enqueue_function[add](a, b, c, grid_dim=4, block_dim=256)
    device.enqueue_function[block_sum](c, sums, grid_dim=8, block_dim=128)
    device.synchronize()
    with c.map_to_host() as added, sums.map_to_host() as reduced:
        for i in range(N):
            print("add", added[i])
        for i in range(8):
            print("block_sum", reduced[i])
"""


@functools.cache
def printed():
    """What the program prints, by the first word of its lines."""
    with tempfile.TemporaryDirectory() as folder:
        program, assembler = os.path.join(folder, "program.mojo"), os.path.join(folder, "assembler")
        for path, text in ((program, PROGRAM), (assembler, PTX_AS_IT_IS)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        os.chmod(assembler, 0o755)
        mojo = os.path.join(os.path.dirname(sys.executable), "mojo")
        done = subprocess.run([sys.executable, mojo, "run", program], stdout=subprocess.PIPE, text=True, check=True,
                              env={**os.environ, "HOME": folder, "MODULAR_NVPTX_COMPILER_PATH": assembler})
    lines = {}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        lines.setdefault(word, []).append(rest)
    return lines


def case_starts():
    """a program starts as it was installed, on the device that NVML told of"""
    assert "EMULATED" in printed()["name"][0]


def case_adds():
    """a kernel of one addition a thread"""
    assert [float(value) for value in printed()["add"]] == [3 * i for i in range(1000)]


def case_reduces():
    """a kernel with shared memory and barriers"""
    blocks = [sum(3 * i for i in range(first, min(first + 128, 1000))) for first in range(0, 1000, 128)]
    assert [float(value) for value in printed()["block_sum"]] == blocks


if __name__ == "__main__":
    cases.run(sys.modules[__name__], "mojo: ")
