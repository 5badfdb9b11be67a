#!/usr/bin/env bash
# ml_dtypes 0.6.0 (PyPI ml_dtypes, with NumPy 2.3.5): numpy.sort leaves numbers of bfloat16 and the 8-bit floats
# unsorted where a NaN is among them, and numpy.unique returns them in that order. NumPy's documentation of sort: nan
# values come last; of unique: the sorted unique elements. Of 3, nan, 1, 2 both return 3, nan, 1, 2; float16 gives 1,
# 2, 3, nan. Seen on 28 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install ml_dtypes==0.6.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import ml_dtypes
import numpy as np

for dtype in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
    x = np.array([3, np.nan, 1, 2], np.float32).astype(dtype)
    print(np.dtype(dtype).name, "sort", np.sort(x).astype(float).tolist(),
          "unique", np.unique(x).astype(float).tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
float16 sort [1.0, 2.0, 3.0, nan] unique [1.0, 2.0, 3.0, nan]
bfloat16 sort [3.0, nan, 1.0, 2.0] unique [3.0, nan, 1.0, 2.0]
float8_e4m3fn sort [3.0, nan, 1.0, 2.0] unique [3.0, nan, 1.0, 2.0]
float8_e5m2 sort [3.0, nan, 1.0, 2.0] unique [3.0, nan, 1.0, 2.0]
X
)
[ "$seen" = "$expected" ]
