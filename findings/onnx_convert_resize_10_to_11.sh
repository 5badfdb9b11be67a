#!/usr/bin/env bash
# ONNX 1.23.2 (PyPI onnx) with ONNX Runtime 1.32.0: onnx.version_converter takes a Resize of opset 10 to opset 11 and
# leaves it without coordinate_transformation_mode. Resize of opset 10 reads place i / scale (the example in ONNX 1.5:
# 1, 2 by two is 1, 1.5, 2, 2), which opset 11 calls "asymmetric"; without the attribute opset 11 takes "half_pixel". So
# the converted model has other numbers, and no warning. Seen on 27 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
from onnx import helper, numpy_helper, version_converter, TensorProto

x = np.array([1, 2], np.float32).reshape(1, 1, 1, 2)
graph = helper.make_graph(
    [helper.make_node("Resize", ["x", "s"], ["y"], mode="linear")], "g",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1, 4])],
    [numpy_helper.from_array(np.array([1, 1, 1, 2], np.float32), "s")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=5)
for opset in (10, 11):
    one = model if opset == 10 else version_converter.convert_version(model, opset)
    session = onnxruntime.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"])
    print("opset", opset, session.run(None, {"x": x})[0].ravel().tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
opset 10 [1.0, 1.5, 2.0, 2.0]
opset 11 [1.0, 1.25, 1.75, 2.0]
E
)
[ "$seen" = "$expected" ]
