#!/usr/bin/env bash
# ONNX Runtime 1.32.0 (PyPI onnxruntime, CPU): whether a nan comes through depends on which op looks for the largest
# value. Max of two tensors gives nan, TopK takes nan for the largest, and Relu keeps it; ReduceMax, ArgMax and MaxPool
# pass over it. ONNX's text says that ReduceMax is similar to numpy's, which gives nan; so does Max in the same runtime.
# A model whose numbers went wrong looks sound behind such an op. Seen on 27 November 2026; fails when that changes.
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


x = np.array([1, np.nan, 3, 2], np.float32)
print("Max", run("Max", [x, np.full(4, 2, np.float32)]).tolist())
print("ReduceMax", run("ReduceMax", [x, np.array([0])]).tolist(), "numpy", np.max(x))
print("ArgMax", run("ArgMax", [x], axis=0).tolist(), "numpy", np.argmax(x))
print("MaxPool", run("MaxPool", [x.reshape(1, 1, 4)], kernel_shape=[3]).ravel().tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
Max [2.0, nan, 3.0, 2.0]
ReduceMax [3.0] numpy nan
ArgMax [2] numpy 1
MaxPool [3.0, 3.0]
E
)
[ "$seen" = "$expected" ]
