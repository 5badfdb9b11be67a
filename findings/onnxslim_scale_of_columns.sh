#!/usr/bin/env bash
# onnxslim 0.1.98 (PyPI onnxslim): slim() folds a Mul by a constant into the Conv before it whenever the constant has as
# many numbers as the Conv has channels, on whichever axis they stand. ONNX's text aligns shapes at their last axis: of
# a result [1, 2, 1, 2] a constant [2] scales the columns, and slim() makes it scale the channels. Of Gemm, Reshape and
# Mul it folds the constant into the weights though the Mul widens the reshaped result: [1, 2, 1] by [2] is [1, 2, 2],
# and [1, 2, 1] is left. Neither is an error, and slim() runs both by default. A constant of shape [2, 1, 1] is folded
# rightly. ONNX Runtime 1.32.0 runs the models, its own optimisations off. Seen on 29 November 2026; fails when that
# changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnxslim==0.1.98 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnx
import onnxruntime
import onnxslim
from onnx import helper, numpy_helper, TensorProto as T
from onnx.helper import make_node

options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 4
columns, channels = np.array([10, 100]), np.array([[[10]], [[100]]])
convolved = [make_node("Conv", ["x", "w"], ["t"]), make_node("Mul", ["t", "m"], ["y"])]
product = [make_node("Gemm", ["x", "w"], ["t"], transB=1), make_node("Reshape", ["t", "s"], ["u"]),
           make_node("Mul", ["u", "m"], ["y"])]
shape = helper.make_tensor("s", T.INT64, [3], [1, 2, 1])
kernel = np.ones([2, 1, 1, 1])  # makes two channels of one
for name, x, w, m, text, nodes, more in (
        ("Conv by channels", np.ones([1, 1, 1, 2]), kernel, channels, np.ones([1, 2, 1, 2]) * channels, convolved, []),
        ("Conv by columns", np.ones([1, 1, 1, 2]), kernel, columns, np.ones([1, 2, 1, 2]) * columns, convolved, []),
        ("Gemm by columns", np.ones([1, 2]), np.eye(2), columns, np.ones([1, 2, 1]) * columns, product, [shape])):
    constants = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in (("w", w), ("m", m))] + more
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", T.FLOAT, text.shape)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    print(name, "text", list(text.shape), *text.ravel())
    for who, m in (("as it was", model), ("slimmed", onnxslim.slim(model))):
        session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        y = session.run(None, {"x": x.astype(np.float32)})[0]
        print(" ", who, list(y.shape), *y.ravel(), "by", *(node.op_type for node in m.graph.node))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
Conv by channels text [1, 2, 1, 2] 10.0 10.0 100.0 100.0
  as it was [1, 2, 1, 2] 10.0 10.0 100.0 100.0 by Conv Mul
  slimmed [1, 2, 1, 2] 10.0 10.0 100.0 100.0 by Conv
Conv by columns text [1, 2, 1, 2] 10.0 100.0 10.0 100.0
  as it was [1, 2, 1, 2] 10.0 100.0 10.0 100.0 by Conv Mul
  slimmed [1, 2, 1, 2] 10.0 10.0 100.0 100.0 by Conv
Gemm by columns text [1, 2, 2] 10.0 100.0 10.0 100.0
  as it was [1, 2, 2] 10.0 100.0 10.0 100.0 by Gemm Reshape Mul
  slimmed [1, 2, 1] 10.0 100.0 by Gemm Reshape
X
)
[ "$seen" = "$expected" ]
