#!/usr/bin/env bash
# ONNX Runtime 1.32.0 (PyPI onnxruntime, CPU): a tensor that is quantised and dequantised twice, by one scale and then
# by another, is rounded once: the basic level of graph optimisation takes out the pair in the middle. ONNX Runtime's
# documentation calls the rewrites of that level semantics-preserving, and the level is part of the default. By the
# model 0.5 is 0 after the first scale, 1.0 (half to even), and stays 0 under the second, 0.3; it becomes 0.6. With
# optimisation off the results are the model's. Seen on 28 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
from onnx import helper, numpy_helper, TensorProto

x = np.array([0.5, 2.5, 3.5, -3.5], np.float32)
scales = {"s": np.float32(1), "t": np.float32(0.3)}
zeros = {"z": np.int8(0), "u": np.int8(5)}
nodes, given = [], "x"
for scale, zero, result in (("s", "z", "a"), ("t", "u", "y")):
    nodes += [helper.make_node("QuantizeLinear", [given, scale, zero], ["q" + result]),
              helper.make_node("DequantizeLinear", ["q" + result, scale, zero], [result])]
    given = result
graph = helper.make_graph(
    nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    [numpy_helper.from_array(np.asarray(v), k) for k, v in {**scales, **zeros}.items()])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC"):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    print(level, [round(float(v), 3) for v in session.run(None, {"x": x})[0]])
once = np.round(x.astype(np.float64))
print("by the text", [round(float(v), 3) for v in np.round(once / np.float64(scales["t"])) * np.float64(scales["t"])])
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
ORT_DISABLE_ALL [0.0, 2.1, 3.9, -3.9]
ORT_ENABLE_BASIC [0.6, 2.4, 3.6, -3.6]
by the text [0.0, 2.1, 3.9, -3.9]
X
)
[ "$seen" = "$expected" ]
