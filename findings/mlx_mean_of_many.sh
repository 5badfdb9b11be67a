#!/usr/bin/env bash
# MLX 0.32.4 on the CPU (PyPI mlx[cpu]): mean() divides a sum that it forms in the input's own type, or in 32 bits. The
# mean of two int32 of 2e9 is -147483648, that of 2e7 bytes of 255 is 40.25 (their sum passes 2^32), and that of 2^17
# halves of 1 is infinite. Its sum of float32 is one running sum, which a further 1 no longer changes from 2^24 on: the
# mean of 2^25 ones is 0.5, along an axis as well. The type of each result could hold the right mean, and no warning
# tells. NumPy 2.3.5 has them all. Seen on 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install "mlx[cpu]==0.32.4" mlx-cpu==0.32.4 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import mlx.core as mx
import numpy as np

for number, count, dtype in ((2000000000, 2, "int32"), (255, 20000000, "uint8"), (1, 2**17, "float16"),
                             (1, 2**24, "float32"), (1, 2**25, "float32")):
    values = np.full([count], number, dtype)
    mean = mx.mean(mx.array(values))
    print(count, "of", number, "as", dtype, "mean", f"{mean.item():.10g}", "in", mean.dtype, "NumPy",
          np.mean(values), "by rows", *(f"{v:.10g}" for v in mx.mean(mx.array(values[None]), axis=1).tolist()))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
2 of 2000000000 as int32 mean -147483648 in mlx.core.float32 NumPy 2000000000.0 by rows -147483648
20000000 of 255 as uint8 mean 40.25163651 in mlx.core.float32 NumPy 255.0 by rows 40.25163651
131072 of 1 as float16 mean inf in mlx.core.float16 NumPy 1.0 by rows inf
16777216 of 1 as float32 mean 1 in mlx.core.float32 NumPy 1.0 by rows 1
33554432 of 1 as float32 mean 0.5 in mlx.core.float32 NumPy 1.0 by rows 0.5
X
)
[ "$seen" = "$expected" ]
