#!/usr/bin/env bash
# tf2onnx 1.17.0 (PyPI tf2onnx, with TensorFlow 2.21.0): less and greater of integers are written as casts to float and
# a comparison of these, also for opsets whose Less takes integers. From 2^24 on neighbours are one float, and the
# comparison is false where TensorFlow's is true. less_equal and greater_equal are written as they are. ONNX Runtime
# 1.32.0 runs both. Seen on 29 November 2026; fails when that changes.
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

a, b = np.array([2**24, 2**24 + 1]), np.array([2**24 + 1, 2**24])
for dtype in (tf.int32, tf.int64):
    given = [tf.TensorSpec([2], dtype, name=name) for name in "ab"]
    for op in (tf.less, tf.greater, tf.less_equal, tf.greater_equal):
        function = tf.function(lambda a, b: op(a, b), input_signature=given)
        model, _ = tf2onnx.convert.from_function(function, input_signature=given, opset=18)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        feeds = {"a": a.astype(dtype.as_numpy_dtype), "b": b.astype(dtype.as_numpy_dtype)}
        nodes = " ".join(node.op_type for node in model.graph.node)
        results = op(*feeds.values()).numpy(), session.run(None, feeds)[0]
        print(dtype.name, "tensorflow", results[0].tolist(), "onnx", results[1].tolist(), nodes)
P
seen=$(TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
int32 tensorflow [True, False] onnx [False, False] Cast Cast Less
int32 tensorflow [False, True] onnx [False, False] Cast Cast Greater
int32 tensorflow [True, False] onnx [True, False] LessOrEqual
int32 tensorflow [False, True] onnx [False, True] GreaterOrEqual
int64 tensorflow [True, False] onnx [False, False] Cast Cast Less
int64 tensorflow [False, True] onnx [False, False] Cast Cast Greater
int64 tensorflow [True, False] onnx [True, False] LessOrEqual
int64 tensorflow [False, True] onnx [False, True] GreaterOrEqual
X
)
[ "$seen" = "$expected" ]
