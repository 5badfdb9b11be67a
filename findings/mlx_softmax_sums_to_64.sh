#!/usr/bin/env bash
# MLX 0.32.4 on the CPU (PyPI mlx[cpu]): along the last axis softmax() of bfloat16 and float16 adds up its exponentials
# one by one in that type. From 256 on (bfloat16; 2048 for float16) a further 1 is rounded away, so of 16384 equal
# numbers each becomes 2^-8 instead of 2^-14, and the "probabilities" sum to 64. Its help says that without precise=True
# the sum may lose precision over long axes; here it stands still. Along the first axis the result is right, and so is
# exp(x) / sum(exp(x)), which the help names as the same. Seen on 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install "mlx[cpu]==0.32.4" mlx-cpu==0.32.4 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import mlx.core as mx
import numpy as np


def total(y):
    return np.array(y.astype(mx.float32)).astype(np.float64).sum()


for dtype in (mx.bfloat16, mx.float16, mx.float32):
    for count in (256, 512, 4096, 16384):
        x = mx.zeros([1, count], dtype)
        spelt = mx.exp(x) / mx.sum(mx.exp(x), axis=1, keepdims=True)
        print(dtype, count, "sums to", total(mx.softmax(x, axis=1)), "first axis", total(mx.softmax(x.T, axis=0)),
              "spelt out", total(spelt), "precise", total(mx.softmax(x, axis=1, precise=True)))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
mlx.core.bfloat16 256 sums to 1.0 first axis 1.0 spelt out 1.0 precise 1.0
mlx.core.bfloat16 512 sums to 2.0 first axis 1.0 spelt out 1.0 precise 1.0
mlx.core.bfloat16 4096 sums to 16.0 first axis 1.0 spelt out 1.0 precise 1.0
mlx.core.bfloat16 16384 sums to 64.0 first axis 1.0 spelt out 1.0 precise 1.0
mlx.core.float16 256 sums to 1.0 first axis 1.0 spelt out 1.0 precise 1.0
mlx.core.float16 512 sums to 1.0 first axis 1.0 spelt out 1.0 precise 1.0
mlx.core.float16 4096 sums to 2.0 first axis 1.0 spelt out 1.0 precise 1.0
mlx.core.float16 16384 sums to 8.0 first axis 1.0 spelt out 1.0 precise 1.0
mlx.core.float32 256 sums to 1.0 first axis 1.0 spelt out 1.0 precise 1.0
mlx.core.float32 512 sums to 1.0 first axis 1.0 spelt out 1.0 precise 1.0
mlx.core.float32 4096 sums to 1.0 first axis 1.0 spelt out 1.0 precise 1.0
mlx.core.float32 16384 sums to 1.0 first axis 1.0 spelt out 1.0 precise 1.0
X
)
[ "$seen" = "$expected" ]
