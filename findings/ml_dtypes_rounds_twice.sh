#!/usr/bin/env bash
# ml_dtypes 0.6.0 (PyPI ml_dtypes, with NumPy 2.3.5): doubles and whole numbers become bfloat16 and the 8-bit floats
# by way of float, and so are rounded twice. A number just above the middle between two neighbours is the middle
# itself as a float, and then goes to the even one below. NumPy's own float16 is rounded once. Seen on 28 November
# 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install ml_dtypes==0.6.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import ml_dtypes
import numpy as np

for dtype, bits in ((np.float16, 10), (ml_dtypes.bfloat16, 7), (ml_dtypes.float8_e4m3fn, 3),
                    (ml_dtypes.float8_e5m2, 2)):
    above = np.array([1 + 2.0**-(bits + 1) + 2.0**-40])
    print(np.dtype(dtype).name, float(above.astype(dtype)[0]), "nearest", 1 + 2.0**-bits)
middle = 2**24 + 2**16  # bfloat16 has a number each 2^17 there
for dtype in (np.int32, np.int64):
    whole = np.array([middle + 1], dtype)
    print(np.dtype(dtype).name, int(whole.astype(ml_dtypes.bfloat16)[0]) - middle, "nearest", 2**16)
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
float16 1.0009765625 nearest 1.0009765625
bfloat16 1.0 nearest 1.0078125
float8_e4m3fn 1.0 nearest 1.125
float8_e5m2 1.0 nearest 1.25
int32 -65536 nearest 65536
int64 -65536 nearest 65536
X
)
[ "$seen" = "$expected" ]
