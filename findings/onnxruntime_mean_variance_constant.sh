#!/usr/bin/env bash
# ONNX Runtime 1.32.0 (PyPI onnxruntime, CPU): MeanVarianceNormalization of equal values is nan. The op is a function of
# ONNX, whose body adds 1e-9 to the square root before it divides, so that 0 / 1e-9 = 0 comes out; ONNX Runtime's own
# kernel adds nothing. An image of one colour, or a channel of padding, becomes nan. The same sum written out with
# ONNX's ops, epsilon included, gives 0. Seen on 27 November 2026; fails when that changes.
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


x = np.full((1, 1, 2, 2), 3, np.float32)
y = run("MeanVarianceNormalization", [x], opset=13)
root = np.sqrt(np.mean(x * x) - np.mean(x) ** 2)
print(y.ravel().tolist(), "by the function", ((x - x.mean()) / (root + 1e-9)).ravel().tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
[nan, nan, nan, nan] by the function [0.0, 0.0, 0.0, 0.0]
E
)
[ "$seen" = "$expected" ]
