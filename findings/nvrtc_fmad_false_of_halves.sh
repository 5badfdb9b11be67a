#!/usr/bin/env bash
# NVRTC 13.5.37 (PyPI nvidia-cuda-nvrtc): --fmad=false, which turns off that a product and a sum become one operation,
# holds for float and double but not for __half and __nv_bfloat16 where PTX is asked for (--gpu-architecture
# compute_90). It writes float's product as mul.rn.f32, which no later compiler may join, and theirs as mul.f16 and
# mul.bf16; PTX's text says that these, without .rn, may be joined with a sum, and ptxas, told nothing, joins them. The
# same program with the same option compiled for sm_90 is not joined. So a kernel has other numbers when it is shipped
# as PTX: with a = 1 + 2^-10, a * a - (1 + 2^-9) is 0 in two roundings and 2^-20 in one. No GPU is needed: it is read in
# the disassembly. Seen on 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install nvidia-cuda-nvrtc==13.5.37 nvidia-cuda-nvcc==13.5.37 nvidia-cuda-runtime==13.5.37 \
  nvidia-cuda-crt==13.5.37 nvidia-cuda-cccl==13.3.5.0.6 nvidia-cuda-nvdisasm==13.5.37 cuda-bindings==13.5.0 \
  numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import pathlib
import re
import subprocess
import sys

import numpy as np
from cuda.bindings import nvrtc

folder = pathlib.Path(sys.argv[1])
toolkit = next(folder.glob("venv/lib/python*/site-packages/nvidia/cu13"))
source = """#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern "C" __global__ void product_and_sum(const Number *a, Number *to) { *to = a[0] * a[1] + a[2]; }
"""


def compiled(dtype, architecture, size, code):
    program = nvrtc.nvrtcCreateProgram(source.encode(), b"program.cu", 0, [], [])[1]
    options = [f"--gpu-architecture={architecture}_90", "--fmad=false", f"-DNumber={dtype}", f"-I{toolkit}/include"]
    assert nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])[0] == 0
    result = bytes(size(program)[1])
    code(program, result)
    return result


def instructions(name, cubin):
    (folder / name).write_bytes(cubin)
    text = subprocess.run([toolkit / "bin/nvdisasm", "-c", folder / name], check=True, capture_output=True, text=True)
    return re.findall(r"\b[HF](?:MUL|ADD|FMA)2?\S*", text.stdout)


for dtype in ("float", "__half", "__nv_bfloat16"):
    ptx = compiled(dtype, "compute", nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0")
    cubin = compiled(dtype, "sm", nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    (folder / "program.ptx").write_bytes(ptx)
    subprocess.run([toolkit / "bin/ptxas", "-arch=sm_90", folder / "program.ptx", "-o", folder / "later"], check=True)
    print(dtype, "ptx:", *re.findall(r"\b(?:mul|add|fma)\.\S*f\d\d\b", ptx.decode()))
    later = (folder / "later").read_bytes()
    print("  by NVRTC:", *instructions("whole", cubin), " by ptxas:", *instructions("parted", later))
a = np.float16(1 + 2**-10)
c = -np.float16(1 + 2**-9)
print("halves: in two roundings", float(a * a + c), "in one", float(np.float16(float(a) * float(a) + float(c))))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" "$folder")
printf '%s\n' "$seen"
expected=$(cat <<'X'
float ptx: mul.rn.f32 add.rn.f32
  by NVRTC: FMUL FADD  by ptxas: FMUL FADD
__half ptx: mul.f16 add.f16
  by NVRTC: HMUL2 HADD2  by ptxas: HFMA2
__nv_bfloat16 ptx: mul.bf16 add.bf16
  by NVRTC: HMUL2.BF16_V2 HADD2.BF16_V2  by ptxas: HFMA2.BF16_V2
halves: in two roundings 0.0 in one 9.5367431640625e-07
X
)
[ "$seen" = "$expected" ]
