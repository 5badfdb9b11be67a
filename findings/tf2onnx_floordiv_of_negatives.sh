#!/usr/bin/env bash
# tf2onnx 1.17.0 (PyPI tf2onnx, with TensorFlow 2.21.0): floordiv of integers is written as ONNX's Div, and floormod by
# it. Div of integers cuts towards zero, so where the signs differ and something is left the quotient is one too large
# and the remainder has the other sign. ONNX Runtime 1.32.0 runs both. Seen on 29 November 2026; fails when that
# changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install tensorflow-cpu==2.21.0 keras==3.15.1 tf2onnx==1.17.0 onnx==1.23.2 \
  onnxruntime==1.32.0 numpy==2.2.6
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
import tensorflow as tf
import tf2onnx

a, b = np.array([-7, 7, -7], np.int32), np.array([2, -2, -2], np.int32)
given = [tf.TensorSpec([3], tf.int32, name=name) for name in "ab"]
for name, op in (("floordiv", tf.math.floordiv), ("floormod", tf.math.floormod)):
    function = tf.function(lambda a, b: op(a, b), input_signature=given)
    model, _ = tf2onnx.convert.from_function(function, input_signature=given, opset=18)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    nodes = " ".join(node.op_type for node in model.graph.node)
    print(name, "tensorflow", op(a, b).numpy().tolist(), "onnx", session.run(None, {"a": a, "b": b})[0].tolist(), nodes)
P
seen=$(TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
floordiv tensorflow [-4, -4, 3] onnx [-3, -3, 3] Div
floormod tensorflow [1, -1, -1] onnx [-1, 1, -1] Div Mul Sub
X
)
[ "$seen" = "$expected" ]
