#!/usr/bin/env bash
# tf2onnx 1.17.0 (PyPI tf2onnx, with Keras 3.15.1 and TensorFlow 2.21.0): the exact gelu of Keras is TensorFlow's Erfc,
# which tf2onnx does not know. It returns a model nevertheless, with a node Erfc of the domain of ONNX, which has no
# such op: onnx's checker and every runtime refuse it. Seen on 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install tensorflow-cpu==2.21.0 keras==3.15.1 tf2onnx==1.17.0 onnx==1.23.2 \
  onnxruntime==1.32.0 numpy==2.2.6
cat >"$folder/seen.py" <<'P'
import keras
import onnx
import tensorflow as tf
import tf2onnx

given = [tf.TensorSpec([2], tf.float32, name="x")]
function = tf.function(lambda x: keras.activations.gelu(x, approximate=False), input_signature=given)
model, _ = tf2onnx.convert.from_function(function, input_signature=given, opset=18)
print(" ".join(node.op_type for node in model.graph.node))
try:
    onnx.checker.check_model(model)
except onnx.checker.ValidationError as error:
    print(str(error).splitlines()[0])
P
seen=$(TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
Mul Neg Mul Erfc Mul
No Op registered for Erfc with domain_version of 18
X
)
[ "$seen" = "$expected" ]
