#!/usr/bin/env bash
# ONNX Runtime 1.32.0 (PyPI onnxruntime, CPU): a MatMul of floats by a weight that DequantizeLinear makes of int8 is
# computed, by default, with the floats rounded to 8 bits, too: the pair becomes MatMulNBits with accuracy level 4. The
# model says that only the weight is quantised. By its text [1, 0.001, 0.001, ..] (32 elements) times a weight of ones
# is 1.031; the default answers 1. With optimisation off, or the session option
# session.qdq_matmulnbits_accuracy_level at 1, the result is the model's. Seen on 28 November 2026; fails when that
# changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
from onnx import helper, numpy_helper, TensorProto

x = np.full((1, 32), 0.001, np.float32)
x[0, 0] = 1
graph = helper.make_graph(
    [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"]), helper.make_node("MatMul", ["x", "d"], ["y"])], "g",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    [numpy_helper.from_array(np.full((32, 4), 64, np.int8), "w"),
     numpy_helper.from_array(np.float32(1 / 64), "s"), numpy_helper.from_array(np.int8(0), "z")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
for name, level, accuracy in (("off", "ORT_DISABLE_ALL", None), ("default", "ORT_ENABLE_ALL", None),
                              ("default, accuracy level 1", "ORT_ENABLE_ALL", "1")):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    if accuracy:
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", accuracy)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    print(name, [round(float(v), 3) for v in session.run(None, {"x": x})[0][0]])
print("by the text", round(float(x.astype(np.float64).sum()), 3))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
off [1.031, 1.031, 1.031, 1.031]
default [1.0, 1.0, 1.0, 1.0]
default, accuracy level 1 [1.031, 1.031, 1.031, 1.031]
by the text 1.031
X
)
[ "$seen" = "$expected" ]
