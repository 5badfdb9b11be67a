#!/usr/bin/env bash
# ONNX Runtime 1.32.0 (PyPI onnxruntime, CPU): MaxPool with auto_pad SAME_UPPER and dilations above 1 adds too little
# padding: the image shrinks. ONNX's text: with SAME the output is ceil(input / stride), and the padding follows from
# (kernel - 1) * dilation + 1. With a kernel of 3 and dilations of 2 a row of 5 has 5 results (maxima 2 3 4 3 4 of 0 to
# 4), and three come out: the padding is that of dilations of 1. ONNX's reference evaluator computes the five. Seen on
# 27 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
from onnx import helper, numpy_helper, TensorProto


def run(op, inputs, opset=21, **attributes):
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], **attributes)
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
         for n, x in zip(names, inputs)], [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, inputs)))[0]


x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
for dilation in (1, 2):
    y = run("MaxPool", [x], kernel_shape=[3], dilations=[dilation], auto_pad="SAME_UPPER")
    padded = np.pad(x.ravel(), dilation, constant_values=-np.inf)
    right = [max(padded[i + k * dilation] for k in range(3)) for i in range(5)]
    print("dilation", dilation, y.ravel().tolist(), "by the text", [float(v) for v in right])
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
dilation 1 [1.0, 2.0, 3.0, 4.0, 4.0] by the text [1.0, 2.0, 3.0, 4.0, 4.0]
dilation 2 [3.0, 4.0, 3.0] by the text [2.0, 3.0, 4.0, 3.0, 4.0]
E
)
[ "$seen" = "$expected" ]
