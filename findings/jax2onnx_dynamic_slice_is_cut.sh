#!/usr/bin/env bash
# jax2onnx 0.17.1 (PyPI jax2onnx, with JAX 0.10.2): four functions of JAX whose model, in ONNX Runtime 1.32.0, says
# something else, with no warning of the converter. lax.round becomes ONNX's Round, which sends halves to even; its
# default sends them away from zero. A lax.dynamic_slice that would pass an end is moved inwards in JAX and has the size
# that was asked for; the model cuts it short, or takes it elsewhere. jax.nn.one_hot of a number below 0 is a row of
# zeros; the model counts it from the end. jax.numpy.copysign copies the sign of -0; the model does not. JAX and NumPy
# agree with JAX's reference (jax.lax.round, jax.lax.dynamic_slice, jax.nn.one_hot, jax.numpy.copysign). Seen on
# 30 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install jax2onnx==0.17.1 jax==0.10.2 jaxlib==0.10.2 flax==0.12.8 equinox==0.13.8 \
  onnx==1.23.2 onnx-ir==1.1.0 onnxruntime==1.32.0 numpy==2.4.6
cat >"$folder/seen.py" <<'P'
import jax
import jax2onnx
import numpy as np
import onnxruntime
from jax import lax

numbers, halves = np.arange(1, 6, dtype=np.float32), np.array([0.5, 1.5, 2.5, -0.5], np.float32)
places, signs = np.array([0, -1, 3], np.int32), np.array([-1, -0.0], np.float32)


def clamped(x, start):  # a negative start counts from the end, then the window is moved to lie within
    start = min(max(start + len(x) if start < 0 else start, 0), len(x) - 2)
    return x[start:start + 2]


def sliced(x, start):
    return lax.dynamic_slice(x, (start,), (2,))


for name, function, reference, given in (
        ("round, to even", lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), np.rint, [halves]),
        ("round", lax.round, lambda x: np.trunc(x + np.copysign(0.5, x)), [halves]),
        ("dynamic_slice from 3", sliced, clamped, [numbers, np.int32(3)]),
        ("dynamic_slice from 4", sliced, clamped, [numbers, np.int32(4)]),
        ("dynamic_slice from -1", sliced, clamped, [numbers, np.int32(-1)]),
        ("dynamic_slice from -9", sliced, clamped, [numbers, np.int32(-9)]),
        ("one_hot of 0, -1, 3", lambda i: jax.nn.one_hot(i, 3), lambda i: i[:, None] == np.arange(3), [places]),
        ("copysign of 3 to -1, -0", lambda s: jax.numpy.copysign(3, s), lambda s: np.copysign(3, s), [signs])):
    right = np.asarray(reference(*given), np.float32)
    model = jax2onnx.to_onnx(function, [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in given])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    got = session.run(None, {i.name: np.asarray(x) for i, x in zip(session.get_inputs(), given)})[0]
    print(name, "| JAX is the text's", np.array_equal(jax.jit(function)(*given), right))
    print("  text", right.tolist())
    print("  jax2onnx", got.tolist(), "declared", session.get_outputs()[0].shape)
P
seen=$(JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
round, to even | JAX is the text's True
  text [0.0, 2.0, 2.0, -0.0]
  jax2onnx [0.0, 2.0, 2.0, -0.0] declared [4]
round | JAX is the text's True
  text [1.0, 2.0, 3.0, -1.0]
  jax2onnx [0.0, 2.0, 2.0, -0.0] declared [4]
dynamic_slice from 3 | JAX is the text's True
  text [4.0, 5.0]
  jax2onnx [4.0, 5.0] declared [2]
dynamic_slice from 4 | JAX is the text's True
  text [4.0, 5.0]
  jax2onnx [5.0] declared [2]
dynamic_slice from -1 | JAX is the text's True
  text [4.0, 5.0]
  jax2onnx [5.0] declared [2]
dynamic_slice from -9 | JAX is the text's True
  text [1.0, 2.0]
  jax2onnx [2.0, 3.0] declared [2]
one_hot of 0, -1, 3 | JAX is the text's True
  text [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
  jax2onnx [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]] declared [3, 3]
copysign of 3 to -1, -0 | JAX is the text's True
  text [-3.0, -3.0]
  jax2onnx [-3.0, 3.0] declared [2]
X
)
[ "$seen" = "$expected" ]
