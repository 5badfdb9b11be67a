#!/usr/bin/env bash
# gguf 0.19.0 (PyPI gguf, of llama.cpp): its conversion of a block's scale to NVFP4's unsigned E4M3 makes every number
# from 248 on 448. E4M3 has 256, 288, 320, 352, 384 and 416 as well, and the decoder beside it knows them; so six of the
# 127 codes do not come back when their value is encoded again, and a scale of 256 becomes 1.75 times as large. Numbers
# just below the smallest normal, 2^-6, go down where that is nearer. ml_dtypes 0.6.0 has the same values for all codes,
# and returns each. Seen on 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install gguf==0.19.0 numpy==2.3.5 ml_dtypes==0.6.0
cat >"$folder/seen.py" <<'P'
import ml_dtypes
import numpy as np
from gguf.quants import NVFP4


def decoded(codes):
    return (NVFP4.ue4m3_to_fp32(codes) * 2).astype(np.float32)  # the decoder halves: its 4-bit numbers are doubled


codes = np.arange(127, dtype=np.uint8)
by_hand = [(1 + m / 8) * 2.0**(e - 7) if e else m / 8 * 2.0**-6 for e in range(16) for m in range(8)][:127]
values = np.array(by_hand, np.float32)
print("decoded as by hand", np.array_equal(decoded(codes), values),
      "ml_dtypes", np.array_equal(codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32), values))
print("ml_dtypes returns all codes", np.array_equal(values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), codes))
again = NVFP4.fp32_to_ue4m3(values)
for code in codes[again != codes]:
    print("code", code, "is", values[code], "and comes back as", again[code], "which is", values[again[code]])
for given in (247.0, 250.0, 300.0, 7.75 * 2**-9):
    nearest = values[np.abs(values.astype(np.float64) - given).argmin()]
    print(given, "becomes", decoded(NVFP4.fp32_to_ue4m3(np.array([given], np.float32)))[0], "nearest", nearest)
P
seen=$("$folder/venv/bin/python" "$folder/seen.py")
printf '%s\n' "$seen"
expected=$(cat <<'X'
decoded as by hand True ml_dtypes True
ml_dtypes returns all codes True
code 120 is 256.0 and comes back as 126 which is 448.0
code 121 is 288.0 and comes back as 126 which is 448.0
code 122 is 320.0 and comes back as 126 which is 448.0
code 123 is 352.0 and comes back as 126 which is 448.0
code 124 is 384.0 and comes back as 126 which is 448.0
code 125 is 416.0 and comes back as 126 which is 448.0
247.0 becomes 240.0 nearest 240.0
250.0 becomes 448.0 nearest 256.0
300.0 becomes 448.0 nearest 288.0
0.01513671875 becomes 0.013671875 nearest 0.015625
X
)
[ "$seen" = "$expected" ]
