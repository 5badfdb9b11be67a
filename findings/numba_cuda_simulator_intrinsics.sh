#!/usr/bin/env bash
# numba-cuda 0.30.4 (PyPI numba-cuda): its simulator (NUMBA_ENABLE_CUDASIM=1), on which kernels are tested where there
# is no GPU, has other numbers than the compiled kernel. cuda.fp16.hfloor rounds up. popc counts the ones of the
# magnitude of a negative number: of an int32 of -1 that is 1 instead of 32. clz and ffs take all numbers as 32 bits
# wide: clz of a uint64 of 1 is 31 instead of 63, of a uint8 of 1 31 instead of 7; ffs of 2^32 is 0 instead of 33. brev
# of a uint64 of 1 is 2^31 instead of 2^63. cbrt of -8 is NaN instead of -2. The right numbers are those of CUDA's
# functions, written here by hand. Seen on 1 December 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install numba-cuda==0.30.4 numba==0.68.1 cuda-bindings==13.5.0 cuda-core==1.2.2 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
from numba import cuda


@cuda.jit
def hfloor(x, y):
    y[0] = cuda.fp16.hfloor(x[0])


@cuda.jit
def popc(x, y):
    y[0] = cuda.popc(x[0])


@cuda.jit
def clz(x, y):
    y[0] = cuda.clz(x[0])


@cuda.jit
def ffs(x, y):
    y[0] = cuda.ffs(x[0])


@cuda.jit
def brev(x, y):
    y[0] = cuda.brev(x[0])


@cuda.jit
def cbrt(x, y):
    y[0] = cuda.cbrt(x[0])


for kernel, x, right in ((hfloor, np.float16(1.5), 1.0), (hfloor, np.float16(-1.5), -2.0), (popc, np.int32(1), 1),
                         (popc, np.int32(-1), 32), (popc, np.int32(-2), 31), (clz, np.uint32(1), 31),
                         (clz, np.uint64(1), 63), (clz, np.uint8(1), 7), (ffs, np.uint32(8), 4),
                         (ffs, np.uint64(2**32), 33), (brev, np.uint32(1), 2**31), (brev, np.uint64(1), 2**63),
                         (cbrt, np.float32(8), 2.0), (cbrt, np.float32(-8), -2.0)):
    y = np.zeros(1, np.uint64 if isinstance(right, int) else x.dtype)
    kernel[1, 1](np.array([x]), y)
    print(kernel.__name__, f"{x.dtype}({x})", "is", right, "simulated", y.item())
P
seen=$(NUMBA_ENABLE_CUDASIM=1 "$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
hfloor float16(1.5) is 1.0 simulated 2.0
hfloor float16(-1.5) is -2.0 simulated -1.0
popc int32(1) is 1 simulated 1
popc int32(-1) is 32 simulated 1
popc int32(-2) is 31 simulated 1
clz uint32(1) is 31 simulated 31
clz uint64(1) is 63 simulated 31
clz uint8(1) is 7 simulated 31
ffs uint32(8) is 4 simulated 4
ffs uint64(4294967296) is 33 simulated 0
brev uint32(1) is 2147483648 simulated 2147483648
brev uint64(1) is 9223372036854775808 simulated 2147483648
cbrt float32(8.0) is 2.0 simulated 2.0
cbrt float32(-8.0) is -2.0 simulated nan
X
)
[ "$seen" = "$expected" ]
