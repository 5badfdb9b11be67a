#!/usr/bin/env bash
# numba-cuda 0.30.4 (PyPI numba-cuda): cuda.brev(x) "returns the reverse of the bit pattern of x", and has forms for
# uint32 and uint64 alone. Of an int64, the type of Python's whole numbers and of NumPy's default arrays, numba chooses
# the form of uint32, without a warning: the kernel loads the low 32 bits and reverses those. So brev of 1 is 2^31
# instead of the sign bit, and brev of 2^40 is 0. cuda.popc and cuda.clz of the same int64 are of 64 bits. No GPU is
# needed: it is read in the PTX. Seen on 1 December 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install numba-cuda==0.30.4 numba==0.68.1 cuda-bindings==13.5.0 cuda-core==1.2.2 \
  nvidia-cuda-nvrtc==13.5.37 nvidia-cuda-nvcc==13.5.37 nvidia-nvvm==13.5.37 nvidia-cuda-runtime==13.5.37 \
  nvidia-cuda-cccl==13.3.5.0.6 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import re

from numba import cuda, types


def brev(x, y):
    y[0] = cuda.brev(x[0])


def popc(x, y):
    y[0] = cuda.popc(x[0])


def clz(x, y):
    y[0] = cuda.clz(x[0])


for kernel in (brev, popc, clz):
    for dtype in (types.uint64, types.int64):
        arrays = (types.Array(dtype, 1, "C"), types.Array(types.int64, 1, "C"))
        ptx, _ = cuda.compile_ptx(kernel, arrays, cc=(9, 0))
        print(kernel.__name__, dtype, *re.findall(r"\b(?:ld\.global|brev|popc|clz)\.\w+", ptx))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
brev uint64 ld.global.u64 brev.b64
brev int64 ld.global.u32 brev.b32
popc uint64 ld.global.u64 popc.b64
popc int64 ld.global.u64 popc.b64
clz uint64 ld.global.u64 clz.b64
clz int64 ld.global.u64 clz.b64
X
)
[ "$seen" = "$expected" ]
