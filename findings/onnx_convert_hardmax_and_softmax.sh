#!/usr/bin/env bash
# ONNX 1.23.2 (PyPI onnx) with ONNX Runtime 1.32.0: before opset 13 Softmax and its like take their input as a matrix
# (dimensions before `axis` are rows, all the others columns), from opset 13 on along one dimension.
# onnx.version_converter rewrites Softmax on the way from 11 to 13 but not Hardmax, and on the way back from 13 to 11
# leaves `axis` of Softmax as it is, so that rows which added up to 1 each now share that sum. No warning tells. Seen
# on 28 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
from onnx import helper, version_converter, TensorProto

x = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
for op, opsets in (("Softmax", (11, 13)), ("Hardmax", (11, 13)), ("Softmax", (13, 11))):
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], axis=1)], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opsets[0])], ir_version=6)
    sums = []
    for one in (model, version_converter.convert_version(model, opsets[1])):
        session = onnxruntime.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"])
        sums.append(round(float(session.run(None, {"x": x})[0].sum()), 3))
    print(op, opsets, "sum of all results:", *sums)
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
Softmax (11, 13) sum of all results: 1.0 1.0
Hardmax (11, 13) sum of all results: 1.0 4.0
Softmax (13, 11) sum of all results: 4.0 1.0
X
)
[ "$seen" = "$expected" ]
