#!/usr/bin/env bash
# ONNX 1.23.2 (PyPI onnx) with ONNX Runtime 1.32.0: GroupNormalization of opset 18 has a scale and a bias for each
# group, that of opset 21, which the older one's text tells to take instead, for each channel. onnx.version_converter
# takes a model from 18 to 21 and leaves the inputs as they are: two numbers for four channels. onnx.checker with
# full_check takes the result; ONNX Runtime, which runs the model as it was, refuses it. Seen on 28 November 2026;
# fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper, version_converter, TensorProto

x = np.arange(8, dtype=np.float32).reshape(1, 4, 2)
graph = helper.make_graph(
    [helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)], "g",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
    [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("s", [1, 2]), ("b", [0, 0]))])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
for one in (model, version_converter.convert_version(model, 21)):
    if one is not model:  # which names a version that is deprecated
        onnx.checker.check_model(one, full_check=True)
    try:
        session = onnxruntime.InferenceSession(one.SerializeToString(), options, providers=["CPUExecutionProvider"])
        told = str([round(float(v), 2) for v in session.run(None, {"x": x})[0].ravel()])
    except Exception as error:
        told = "Incompatible dimensions" if "Incompatible dimensions" in str(error) else str(error)
    print("opset", one.opset_import[0].version, "scale", list(one.graph.initializer[0].dims), told)
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
opset 18 scale [2] [-1.34, -0.45, 0.45, 1.34, -2.68, -0.89, 0.89, 2.68]
opset 21 scale [2] Incompatible dimensions
X
)
[ "$seen" = "$expected" ]
