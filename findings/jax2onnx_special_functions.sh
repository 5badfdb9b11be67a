#!/usr/bin/env bash
# jax2onnx 0.17.1 (PyPI jax2onnx, with JAX 0.10.2): functions of JAX that ONNX has no op for become formulas in f32
# that are far from what they stand for, with no warning of the converter. log1p and expm1 of 1e-8 are 0, the case that
# both exist for (Log(1 + x), Exp(x) - 1); erfc of 5 is 0 (1 - Erf); lax.betainc of halves, which is one half by its
# symmetry, is 2.4 % off, and lax.igamma of halves, which is erf(sqrt(1/2)), 3.6 %: both are sums over an interval at
# whose end the integrand has no bound. JAX is right to a few units in the last place, as Python's math has it. Models
# run in ONNX Runtime 1.32.0. Seen on 30 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install jax2onnx==0.17.1 jax==0.10.2 jaxlib==0.10.2 flax==0.12.8 equinox==0.13.8 \
  onnx==1.23.2 onnx-ir==1.1.0 onnxruntime==1.32.0 numpy==2.4.6
cat >"$folder/seen.py" <<'P'
import math

import jax
import jax2onnx
import numpy as np
import onnxruntime
from jax import lax

for name, function, x, right in (
        ("log1p of 1e-8", lax.log1p, 1e-8, math.log1p(1e-8)),
        ("expm1 of 1e-8", lax.expm1, 1e-8, math.expm1(1e-8)),
        ("erfc of 5", lax.erfc, 5, math.erfc(5)),
        ("betainc of halves", lambda a: lax.betainc(a, a, a), 0.5, 0.5),
        ("igamma of halves", lambda a: lax.igamma(a, a), 0.5, math.erf(math.sqrt(0.5)))):
    given = np.array([x], np.float32)
    model = jax2onnx.to_onnx(function, [jax.ShapeDtypeStruct(given.shape, given.dtype)])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    exported = session.run(None, {session.get_inputs()[0].name: given})[0][0]
    own = jax.jit(function)(given)[0]
    print(f"{name}: JAX off by less than 1e-5: {abs(own / right - 1) < 1e-5}, jax2onnx by {abs(exported / right - 1):.1%}")
P
seen=$(JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
log1p of 1e-8: JAX off by less than 1e-5: True, jax2onnx by 100.0%
expm1 of 1e-8: JAX off by less than 1e-5: True, jax2onnx by 100.0%
erfc of 5: JAX off by less than 1e-5: True, jax2onnx by 100.0%
betainc of halves: JAX off by less than 1e-5: True, jax2onnx by 2.4%
igamma of halves: JAX off by less than 1e-5: True, jax2onnx by 3.6%
X
)
[ "$seen" = "$expected" ]
